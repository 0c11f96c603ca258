#include "replay/op_capture.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "replay/op_flops.h"
#include "storages/fake_storage.h"
#include "storages/inner_tensors.h"
#include "storages/storage_walk.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

// Tensors on the CPU up to this size are kept by value: numbers, and parameters of norms.
constexpr int64_t kLargestValueBytes = 4096;

// The device whose kernels the dispatcher chooses.
c10::DeviceType device_of(std::span<const c10::IValue> arguments) {
  const std::vector<at::Tensor> tensors = tensors_in(arguments);
  const bool is_on_gpu = std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    // is_cuda() would call Python for a fake tensor.
    return tensor.defined() && tensor.key_set().has_backend(c10::BackendComponent::CUDABit);
  });
  return is_on_gpu ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
}

// Whether the op runs no kernel of its own on the device: it calls others, or autocast casts its
// arguments and calls it again.
bool is_composed(const OpInfo& info, std::span<const c10::IValue> arguments) {
  const c10::DeviceType device = device_of(arguments);
  const OpInfo::Kernels& kernels =
      device == c10::DeviceType::CUDA ? info.gpu_kernels : info.cpu_kernels;
  return kernels.is_composed || (kernels.casts && at::autocast::is_autocast_enabled(device));
}

bool draws_numbers(const OpInfo& info, std::span<const c10::IValue> arguments) {
  if (!info.is_random) return false;
  if (!info.dropout_argument) return true;
  const c10::IValue& probability = arguments[*info.dropout_argument];
  return !probability.isDouble() || probability.toDouble() != 0;
}

bool changes_an_argument(const OpInfo& info) {
  return std::find(info.is_write.begin(), info.is_write.end(), 1) != info.is_write.end();
}

// Whether a mode of the program, such as a dispatch mode or vmap, changes what ops do.
bool has_mode() {
  constexpr c10::DispatchKeySet usual =
      c10::default_included_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericMode);
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  return !(included - usual).empty();
}

Settings current_settings(c10::DeviceType device) {
  Settings settings;
  settings.has_grad_mode = at::GradMode::is_enabled();
  settings.device = device;
  settings.is_autocast = at::autocast::is_autocast_enabled(device);
  settings.autocast_dtype = at::autocast::get_autocast_dtype(device);
  settings.thread_count = at::get_num_threads();
  std::fegetenv(&settings.float_environment);
  settings.flags = KernelFlags::current();
  return settings;
}

// Values that own no tensor and no Python object.
bool is_value(const c10::IValue& value) {
  return value.isNone() || value.isInt() || value.isDouble() || value.isBool() ||
         value.isComplexDouble() || value.isString() || value.isDevice() || value.isIntList() ||
         value.isDoubleList() || value.isBoolList();
}

// Copies the storage of a small tensor, which the program may then change or drop.
std::vector<std::byte> bytes_of(const c10::StorageImpl& storage) {
  const auto* bytes = static_cast<const std::byte*>(storage.data());
  return {bytes, bytes + storage.nbytes()};
}

c10::StorageImpl& known_storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Whether a backward pass calls the op with gradients enabled, which it does to compute again what
// it needs. One whose own gradients are wanted has them enabled, too, and keeps its graph.
bool is_recomputation() {
  return c10::GradMode::is_enabled() && torch::autograd::get_current_node() != nullptr &&
         !torch::autograd::get_current_graph_task_keep_graph();
}

}  // namespace

OpCapture::OpCapture(const engine::OpFrame& frame, const c10::OperatorHandle& op,
                     const OpInfo& info, const torch::jit::Stack& stack, bool is_dry,
                     bool has_wrappers)
    : frame_(frame),
      is_dry_(is_dry),
      captured_(std::make_unique<CapturedOp>()),
      counts_flops_(!is_dry && !is_recomputation()) {
  is_exact_ = info.has_known_effects && info.completes_results && !changes_an_argument(info) &&
              (is_dry || !has_mode());
  captured_->name = info.name;
  captured_->has_wrappers = has_wrappers;
  if (has_wrappers) look_at_part(info, stack);
  count_flops(info, arguments_of(info, stack));
  is_single_ = is_exact_ && !has_wrappers && !is_composed(info, arguments_of(info, stack));
  if (is_single_) begin_call(op, info, stack);
}

void OpCapture::count_flops(const OpInfo& info, std::span<const c10::IValue> arguments) {
  if (!counts_flops_ || is_in_call()) return;
  try {
    add_flops(info.name, arguments, flops_);
  } catch (const c10::Error&) {
    // What is only for figures ends no program.
  }
}

bool OpCapture::can_capture(const at::Tensor& tensor) const {
  if (!is_dry_) return is_plain(tensor);
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.has_storage() && !is_wrapper(tensor) &&
         !known_storage_of(tensor).sym_nbytes().is_heap_allocated();
}

// The layout of a fake tensor would be asked from Python, and is not needed.
TensorLayout OpCapture::layout_of(const at::Tensor& tensor) const {
  if (!is_dry_) return pytorch::layout_of(tensor);
  TensorLayout layout;
  layout.storage_bytes = static_cast<int64_t>(known_storage_of(tensor).nbytes());
  return layout;
}

bool OpCapture::wants(const OpInfo& info, const torch::jit::Stack& stack) {
  if (!is_exact_ || is_single_ || is_in_call()) return false;
  const std::span<const c10::IValue> arguments = arguments_of(info, stack);
  if (std::any_of(arguments.begin(), arguments.end(), has_wrapper)) {
    if (!captured_->has_wrappers) give_up();  // calls on the inner tensors are unknown
    return false;
  }
  return !is_composed(info, arguments);
}

void OpCapture::look_at_part(const OpInfo& info, const torch::jit::Stack& stack) {
  if (info.waits || (is_in_call() && info.is_random)) give_up();
  const std::span<const c10::IValue> arguments = arguments_of(info, stack);
  for (size_t i = 0; is_exact_ && i < arguments.size(); ++i)
    for (const at::Tensor& tensor : tensors_in(arguments.subspan(i, 1))) {
      if (is_wrapper(tensor) && !passes_all_on(tensor)) give_up();
      if (!is_in_call() || info.is_write[i] == 0 || !tensor.defined() || is_wrapper(tensor))
        continue;
      const TensorHandle* handle =
          tensor.has_storage() ? handle_of(known_storage_of(tensor)) : nullptr;
      if (handle != nullptr && engine::is_complete(*handle->tensor)) give_up();
    }
}

void OpCapture::begin_call(const c10::OperatorHandle& op, const OpInfo& info,
                           const torch::jit::Stack& stack) {
  call_.emplace(op);
  call_->name_hash = info.name_hash;
  call_info_ = &info;
  is_call_exact_ = info.has_known_effects && capture_arguments(info, stack);
  if (draws_numbers(info, arguments_of(info, stack))) give_up();
}

bool OpCapture::capture_arguments(const OpInfo& info, const torch::jit::Stack& stack) {
  const std::span<const c10::IValue> arguments = arguments_of(info, stack);
  for (const c10::IValue& value : arguments) {
    std::optional<Argument> argument = capture_argument(value);
    if (!argument) return false;
    call_->arguments.push_back(std::move(*argument));
  }
  call_->settings = current_settings(device_of(arguments));
  return changes_only_made(info);
}

std::optional<Argument> OpCapture::capture_argument(const c10::IValue& value) {
  if (is_value(value)) return value;
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return value;
    std::optional<TensorArgument> tensor = capture_tensor(value.toTensor());
    if (!tensor) return std::nullopt;
    return std::move(*tensor);
  }
  if (value.isTensorList() || value.isOptionalTensorList()) {
    TensorListArgument list;
    if (!capture_list(value, list)) return std::nullopt;
    return list;
  }
  return std::nullopt;
}

bool OpCapture::capture_list(const c10::IValue& value, TensorListArgument& list) {
  list.has_optional_elements = !value.isTensorList();
  for (const c10::IValue& element : value.toListRef()) {
    if (element.isNone() || !element.toTensor().defined()) {
      list.tensors.emplace_back();
      continue;
    }
    std::optional<TensorArgument> tensor = capture_tensor(element.toTensor());
    if (!tensor) return false;
    list.tensors.push_back(std::move(tensor));
  }
  return true;
}

std::optional<TensorArgument> OpCapture::capture_tensor(const at::Tensor& tensor) {
  if (!can_capture(tensor)) return std::nullopt;
  TensorArgument argument;
  argument.layout = layout_of(tensor);
  c10::StorageImpl& storage = known_storage_of(tensor);
  const TensorHandle* handle = handle_of(storage);
  const auto made = handle == nullptr ? made_.end() : made_.find(engine::id_of(*handle->tensor));
  if (made != made_.end()) {
    argument.source = TensorArgument::Source::kMade;
    argument.index = made->second;
    return argument;
  }
  if (argument.layout.device.is_cpu() && argument.layout.storage_bytes <= kLargestValueBytes) {
    if (!is_dry_) argument.value = bytes_of(storage);
    return argument;
  }
  const std::optional<size_t> input =
      handle == nullptr ? std::nullopt : input_index(handle->tensor);
  if (!input) return std::nullopt;
  argument.source = TensorArgument::Source::kInput;
  argument.index = *input;
  return argument;
}

// Whether the tensor lives until the op ends.
bool OpCapture::is_held(const engine::LiveTensor* tensor) const {
  const auto names = [tensor](const std::vector<engine::Use>& uses) {
    return std::any_of(uses.begin(), uses.end(),
                       [tensor](const engine::Use& use) { return use.tensor == tensor; });
  };
  return names(frame_.uses) || names(frame_.nested_uses);
}

std::optional<size_t> OpCapture::input_index(engine::LiveTensor* tensor) {
  if (!engine::is_complete(*tensor) || !is_held(tensor)) return std::nullopt;
  const auto found = std::find(inputs_.begin(), inputs_.end(), tensor);
  const auto index = static_cast<size_t>(found - inputs_.begin());
  if (found == inputs_.end()) inputs_.push_back(tensor);
  return index;
}

// What the call changes must be a tensor that an earlier one has made.
bool OpCapture::changes_only_made(const OpInfo& info) const {
  for (size_t i = 0; i < info.argument_count; ++i) {
    if (!info.is_write[i]) continue;
    const auto* tensor = std::get_if<TensorArgument>(&call_->arguments[i]);
    if (tensor == nullptr || tensor->source != TensorArgument::Source::kMade) return false;
  }
  return true;
}

void OpCapture::end_call(std::span<const c10::IValue> results) {
  const std::vector<at::Tensor> tensors = tensors_in(results);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) add_made(tensors[i], i);
  call_->changes_made = changes_an_argument(*call_info_);
  const bool makes_or_changes = !call_->made.empty() || call_->changes_made;
  if (makes_or_changes && (!is_call_exact_ || call_info_->leaves_bytes_undefined)) give_up();
  if (makes_or_changes) captured_->calls.push_back(std::move(*call_));  // not a view of another
  call_.reset();
}

void OpCapture::add_made(const at::Tensor& tensor, size_t result) {
  if (!can_capture(tensor)) return give_up();
  const TensorHandle* handle = handle_of(known_storage_of(tensor));
  if (handle == nullptr || engine::is_complete(*handle->tensor)) return;
  const size_t index = captured_->made.size();
  if (!made_.emplace(engine::id_of(*handle->tensor), index).second) return;
  captured_->made.push_back({layout_of(tensor)});
  call_->made.push_back({result, index});
}

std::shared_ptr<const CapturedOp> OpCapture::finish(std::span<const c10::IValue> results,
                                                    std::span<engine::LiveTensor* const> births,
                                                    engine::OpReplay& replay) {
  if (is_single_) end_call(results);
  if (!is_exact_ || is_in_call()) return nullptr;
  replay.results.assign(captured_->made.size(), nullptr);
  for (engine::LiveTensor* birth : births) {
    const auto made = made_.find(engine::id_of(*birth));
    if (made == made_.end()) continue;
    captured_->made[made->second].is_result = true;
    replay.results[made->second] = birth;
  }
  drop_idle_calls();
  if (captured_->calls.empty()) return nullptr;
  note_last_calls();
  replay.inputs = read_inputs();
  return std::move(captured_);
}

// Keeps the calls whose results live, and those that these need.
void OpCapture::drop_idle_calls() {
  std::vector<bool> is_needed;
  for (const MadeTensor& made : captured_->made) is_needed.push_back(made.is_result);
  std::vector<CapturedCall> kept;
  for (auto call = captured_->calls.rbegin(); call != captured_->calls.rend(); ++call) {
    bool is_idle = std::none_of(call->made.begin(), call->made.end(),
                                [&](const auto& made) { return is_needed[made.index]; });
    if (call->changes_made)
      for_each_tensor(*call, [&](const TensorArgument& argument) {
        if (argument.source == TensorArgument::Source::kMade && is_needed[argument.index])
          is_idle = false;
      });
    if (is_idle) continue;
    for_each_tensor(*call, [&](const TensorArgument& argument) {
      if (argument.source == TensorArgument::Source::kMade) is_needed[argument.index] = true;
    });
    kept.push_back(std::move(*call));
  }
  captured_->calls.assign(std::make_move_iterator(kept.rbegin()),
                          std::make_move_iterator(kept.rend()));
}

void OpCapture::note_last_calls() {
  for (size_t i = 0; i < captured_->calls.size(); ++i) {
    for (const CapturedCall::Made& made : captured_->calls[i].made)
      captured_->made[made.index].last_call = i;
    for_each_tensor(captured_->calls[i], [&](const TensorArgument& argument) {
      if (argument.source == TensorArgument::Source::kMade)
        captured_->made[argument.index].last_call = i;
    });
  }
}

// Views that were left out may have read others.
std::vector<engine::LiveTensor*> OpCapture::read_inputs() {
  std::vector<engine::LiveTensor*> kept;
  for (CapturedCall& call : captured_->calls)
    for_each_tensor(call, [&](TensorArgument& argument) {
      if (argument.source != TensorArgument::Source::kInput) return;
      const auto found = std::find(kept.begin(), kept.end(), inputs_[argument.index]);
      const auto index = static_cast<size_t>(found - kept.begin());
      if (found == kept.end()) kept.push_back(inputs_[argument.index]);
      argument.index = index;
    });
  return kept;
}

}  // namespace teraio::pytorch
