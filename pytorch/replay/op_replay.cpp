#include "replay/op_replay.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

#include "interrupts.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

constexpr c10::DispatchKeySet kIncluded =
    c10::default_included_set - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
constexpr c10::DispatchKeySet kExcluded =
    c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView;

// The bytes that arguments are views of.
struct Sources {
  std::span<std::byte* const> inputs;
  std::vector<at::Tensor> made;  // for each of CapturedOp::made
};

std::byte* first_byte_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(const_cast<void*>(tensor.storage().data()));
}

at::Tensor tensor_of(const TensorArgument& argument, const Sources& sources) {
  switch (argument.source) {
    case TensorArgument::Source::kInput:
      return tensor_over(argument.layout, sources.inputs[argument.index]);
    case TensorArgument::Source::kMade:
      return tensor_over(argument.layout, first_byte_of(sources.made[argument.index]));
    case TensorArgument::Source::kValue:
      break;
  }
  return tensor_over(argument.layout, const_cast<std::byte*>(argument.value.data()));
}

c10::IValue list_of(const TensorListArgument& argument, const Sources& sources) {
  c10::List<at::Tensor> tensors;
  c10::List<std::optional<at::Tensor>> optionals;
  for (const std::optional<TensorArgument>& element : argument.tensors) {
    if (argument.has_optional_elements)
      optionals.push_back(element ? std::optional(tensor_of(*element, sources)) : std::nullopt);
    else
      tensors.push_back(element ? tensor_of(*element, sources) : at::Tensor());
  }
  return argument.has_optional_elements ? c10::IValue(optionals) : c10::IValue(tensors);
}

c10::IValue value_of(const Argument& argument, const Sources& sources) {
  if (const auto* tensor = std::get_if<TensorArgument>(&argument))
    return tensor_of(*tensor, sources);
  if (const auto* list = std::get_if<TensorListArgument>(&argument)) return list_of(*list, sources);
  return std::get<c10::IValue>(argument);
}

// Returns the tensors among the results.
std::vector<at::Tensor> call(const CapturedCall& captured, const Sources& sources) {
  torch::jit::Stack stack;
  for (const Argument& argument : captured.arguments) stack.push_back(value_of(argument, sources));
  TORCH_CHECK(captured.settings.flags.has_current_precision(captured.settings.device),
              "the precision of float32 products (TF32) has changed since then: change it between "
              "two iterations");
  const ReplayScope scope(captured.settings);
  captured.op.callBoxed(stack);
  return tensors_in(stack);
}

Status cannot_run(const CapturedOp& captured, std::string_view reason) {
  return Status(ErrorCode::kInternal,
                fmt::format("op {}, which made a discarded tensor, cannot run again: {}. "
                            "Train with --recompute off",
                            captured.name, reason));
}

// Owns the results until the engine has taken their memory.
class TorchReplayResults final : public engine::ReplayResults {
 public:
  explicit TorchReplayResults(std::vector<at::Tensor> results) : results_(std::move(results)) {
    for (const at::Tensor& result : results_) {
      const TensorHandle* handle = nullptr;
      if (result.defined() && is_plain(result))
        handle = handle_of(*result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
      tensors_.push_back(handle == nullptr ? nullptr : handle->tensor);
    }
  }
  std::span<engine::LiveTensor* const> tensors() const override { return tensors_; }

 private:
  std::vector<at::Tensor> results_;
  std::vector<engine::LiveTensor*> tensors_;
};

}  // namespace

ReplayScope::ReplayScope(const Settings& settings)
    : grad_mode_(settings.has_grad_mode),
      keys_(kIncluded, kExcluded),
      autocast_device_(settings.device),
      autocast_dtype_(at::autocast::get_autocast_dtype(settings.device)),
      thread_count_(at::get_num_threads()),
      flags_(KernelFlags::current()) {
  at::autocast::set_autocast_enabled(settings.device, settings.is_autocast);
  at::autocast::set_autocast_dtype(settings.device, settings.autocast_dtype);
  if (settings.thread_count != thread_count_) at::set_num_threads(settings.thread_count);
  std::fegetenv(&float_environment_);
  std::fesetenv(&settings.float_environment);
  if (settings.flags != flags_) settings.flags.set();
}

ReplayScope::~ReplayScope() {
  flags_.set();
  std::fesetenv(&float_environment_);
  at::autocast::set_autocast_dtype(autocast_device_, autocast_dtype_);
  if (at::get_num_threads() != thread_count_) at::set_num_threads(thread_count_);
}

at::Tensor tensor_over(const TensorLayout& layout, std::byte* memory) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), layout.storage_bytes,
                       c10::DataPtr(memory, layout.device), /*allocator=*/nullptr,
                       /*resizable=*/false);
  const c10::DispatchKey key = c10::computeDispatchKey(layout.dtype, c10::kStrided, layout.device);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(layout.dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  if (layout.is_number) impl.set_wrapped_number(true);
  return tensor;
}

std::vector<at::Tensor> replay(const CapturedOp& captured, std::span<std::byte* const> inputs) {
  Sources sources = {inputs, std::vector<at::Tensor>(captured.made.size())};
  for (size_t i = 0; i < captured.calls.size(); ++i) {
    const std::vector<at::Tensor> results = call(captured.calls[i], sources);
    for (const CapturedCall::Made& made : captured.calls[i].made)
      sources.made[made.index] = results.at(made.result);
    for (size_t m = 0; m < captured.made.size(); ++m)
      if (!captured.made[m].is_result && captured.made[m].last_call == i) sources.made[m].reset();
  }
  return std::move(sources.made);
}

Result<std::unique_ptr<engine::ReplayResults>> TorchReplayer::run(
    const engine::ReplayableOp& op, std::span<std::byte* const> inputs) {
  const auto& captured = static_cast<const CapturedOp&>(op);
  try {
    std::unique_ptr<engine::ReplayResults> results;
    backend_.run_on_session_stream(
        [&] { results = std::make_unique<TorchReplayResults>(replay(captured, inputs)); });
    return results;
  } catch (python_error& error) {  // Ctrl-C, for example
    const pybind11::gil_scoped_acquire gil;
    error.restore();
    return keep_raised();
  } catch (pybind11::error_already_set& error) {
    const pybind11::gil_scoped_acquire gil;
    error.restore();
    return keep_raised();
  } catch (const c10::OutOfMemoryError& error) {
    return Status(ErrorCode::kOutOfMemory, "needs an input that was discarded: " +
                                               std::string(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return cannot_run(captured, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return cannot_run(captured, error.what());
  }
}

}  // namespace teraio::pytorch
