#include "op_replay.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

#include "interrupts.h"
#include "tensor_handle.h"

namespace teraio::pytorch {
namespace {

constexpr c10::DispatchKeySet kIncluded =
    c10::default_included_set - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
constexpr c10::DispatchKeySet kExcluded =
    c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView;

at::Tensor tensor_of(const TensorArgument& argument, std::span<std::byte* const> inputs) {
  if (argument.input) return tensor_over(argument, inputs[*argument.input]);
  return tensor_over(argument, const_cast<std::byte*>(argument.value.data()));
}

c10::IValue list_of(const TensorListArgument& argument, std::span<std::byte* const> inputs) {
  c10::List<at::Tensor> tensors;
  c10::List<std::optional<at::Tensor>> optionals;
  for (const std::optional<TensorArgument>& element : argument.tensors) {
    if (argument.has_optional_elements)
      optionals.push_back(element ? std::optional(tensor_of(*element, inputs)) : std::nullopt);
    else
      tensors.push_back(element ? tensor_of(*element, inputs) : at::Tensor());
  }
  return argument.has_optional_elements ? c10::IValue(optionals) : c10::IValue(tensors);
}

c10::IValue value_of(const Argument& argument, std::span<std::byte* const> inputs) {
  if (const auto* tensor = std::get_if<TensorArgument>(&argument))
    return tensor_of(*tensor, inputs);
  if (const auto* list = std::get_if<TensorListArgument>(&argument)) return list_of(*list, inputs);
  return std::get<c10::IValue>(argument);
}

// Owns the results until the engine has taken their memory.
class TorchReplayResults final : public engine::ReplayResults {
 public:
  explicit TorchReplayResults(torch::jit::Stack results)
      : results_(std::move(results)), tensors_(live_tensors_in(results_)) {}
  std::span<engine::LiveTensor* const> tensors() const override { return tensors_; }

 private:
  torch::jit::Stack results_;
  std::vector<engine::LiveTensor*> tensors_;
};

}  // namespace

ReplayScope::ReplayScope(const Settings& settings)
    : keys_(kIncluded, kExcluded),
      autocast_device_(settings.autocast_device),
      autocast_dtype_(at::autocast::get_autocast_dtype(settings.autocast_device)),
      thread_count_(at::get_num_threads()) {
  at::autocast::set_autocast_enabled(settings.autocast_device, settings.is_autocast);
  at::autocast::set_autocast_dtype(settings.autocast_device, settings.autocast_dtype);
  if (settings.thread_count != thread_count_) at::set_num_threads(settings.thread_count);
}

ReplayScope::~ReplayScope() {
  at::autocast::set_autocast_dtype(autocast_device_, autocast_dtype_);
  if (at::get_num_threads() != thread_count_) at::set_num_threads(thread_count_);
}

at::Tensor tensor_over(const TensorArgument& argument, std::byte* memory) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), argument.storage_bytes,
                       c10::DataPtr(memory, argument.device), /*allocator=*/nullptr,
                       /*resizable=*/false);
  const c10::DispatchKey key =
      c10::computeDispatchKey(argument.dtype, c10::kStrided, argument.device);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(argument.dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(argument.sizes, argument.strides, argument.offset);
  if (argument.is_number) impl.set_wrapped_number(true);
  return tensor;
}

torch::jit::Stack replay(const CapturedOp& captured, std::span<std::byte* const> inputs) {
  torch::jit::Stack stack;
  for (const Argument& argument : captured.arguments) stack.push_back(value_of(argument, inputs));
  const ReplayScope scope(captured.settings);
  captured.op.callBoxed(stack);
  return stack;
}

std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> results) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : results) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (!value.isList()) continue;
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) tensors.push_back(element.toTensor());
  }
  return tensors;
}

std::vector<engine::LiveTensor*> live_tensors_in(std::span<const c10::IValue> results) {
  std::vector<engine::LiveTensor*> tensors;
  for (const at::Tensor& tensor : tensors_in(results)) {
    const TensorHandle* handle = nullptr;
    if (tensor.defined() && is_plain(tensor))
      handle = handle_of(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    tensors.push_back(handle == nullptr ? nullptr : handle->tensor);
  }
  return tensors;
}

Result<std::unique_ptr<engine::ReplayResults>> TorchReplayer::run(
    const engine::ReplayableOp& op, std::span<std::byte* const> inputs) {
  try {
    std::unique_ptr<engine::ReplayResults> results;
    backend_.run_on_session_stream([&] {
      results =
          std::make_unique<TorchReplayResults>(replay(static_cast<const CapturedOp&>(op), inputs));
    });
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
  } catch (const std::exception& error) {
    return Status(ErrorCode::kInternal, error.what());
  }
}

void TorchReplayer::wait(const std::function<void()>& call) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return call();
  const pybind11::gil_scoped_release no_gil;
  call();
}

}  // namespace teraio::pytorch
