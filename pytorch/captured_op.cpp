#include "captured_op.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "tensor_handle.h"

namespace teraio::pytorch {
namespace {

// Tensors on the CPU up to this size are kept by value: numbers, and parameters of norms.
constexpr int64_t kLargestValueBytes = 4096;

// The tensors whose bytes a replay needs, each once.
class Inputs {
 public:
  Inputs(std::span<const engine::Use> uses, std::vector<engine::LiveTensor*>& inputs)
      : uses_(uses), inputs_(inputs) {}

  // Returns nothing for a tensor of another session.
  std::optional<size_t> index_of(engine::LiveTensor* tensor) {
    const bool is_used = std::any_of(uses_.begin(), uses_.end(),
                                     [&](const engine::Use& use) { return use.tensor == tensor; });
    if (!is_used) return std::nullopt;
    const auto found = std::find(inputs_.begin(), inputs_.end(), tensor);
    const auto index = static_cast<size_t>(found - inputs_.begin());
    if (found == inputs_.end()) inputs_.push_back(tensor);
    return index;
  }

 private:
  std::span<const engine::Use> uses_;
  std::vector<engine::LiveTensor*>& inputs_;
};

// Copies the storage of a small tensor, which the program may then change or drop.
std::vector<std::byte> bytes_of(const c10::StorageImpl& storage) {
  const auto* bytes = static_cast<const std::byte*>(storage.data());
  return {bytes, bytes + storage.nbytes()};
}

std::optional<TensorArgument> capture_tensor(const at::Tensor& tensor, Inputs& inputs) {
  if (!is_plain(tensor)) return std::nullopt;
  TensorArgument argument = layout_of(tensor);
  c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (tensor.device().is_cpu() && argument.storage_bytes <= kLargestValueBytes) {
    argument.value = bytes_of(storage);
    return argument;
  }
  const TensorHandle* handle = handle_of(storage);
  if (handle == nullptr) return std::nullopt;
  argument.input = inputs.index_of(handle->tensor);
  if (!argument.input) return std::nullopt;
  return argument;
}

// Returns whether all tensors of the list could be captured.
bool capture_list(const c10::IValue& value, Inputs& inputs, TensorListArgument& list) {
  list.has_optional_elements = !value.isTensorList();
  for (const c10::IValue& element : value.toListRef()) {
    if (element.isNone() || !element.toTensor().defined()) {
      list.tensors.emplace_back();
      continue;
    }
    std::optional<TensorArgument> tensor = capture_tensor(element.toTensor(), inputs);
    if (!tensor) return false;
    list.tensors.push_back(std::move(tensor));
  }
  return true;
}

// Values that own no tensor and no Python object.
bool is_value(const c10::IValue& value) {
  return value.isNone() || value.isInt() || value.isDouble() || value.isBool() ||
         value.isComplexDouble() || value.isString() || value.isDevice() || value.isIntList() ||
         value.isDoubleList() || value.isBoolList();
}

std::optional<Argument> capture_argument(const c10::IValue& value, Inputs& inputs) {
  if (is_value(value)) return value;
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return value;
    std::optional<TensorArgument> tensor = capture_tensor(value.toTensor(), inputs);
    if (!tensor) return std::nullopt;
    return std::move(*tensor);
  }
  if (value.isTensorList() || value.isOptionalTensorList()) {
    TensorListArgument list;
    if (!capture_list(value, inputs, list)) return std::nullopt;
    return list;
  }
  return std::nullopt;
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
  settings.autocast_device = device;
  settings.is_autocast = at::autocast::is_autocast_enabled(device);
  settings.autocast_dtype = at::autocast::get_autocast_dtype(device);
  settings.thread_count = at::get_num_threads();
  return settings;
}

}  // namespace

bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return tensor.layout() == c10::kStrided && impl.has_storage() && !impl.is_python_dispatch() &&
         !impl.is_quantized() && !impl.is_nested() && !impl.has_symbolic_sizes_strides() &&
         !impl.is_conj() && !impl.is_neg() && !impl._is_zerotensor() &&
         (impl.device().is_cpu() || impl.device().is_cuda()) &&
         !impl.key_set().has(c10::DispatchKey::Functionalize);
}

TensorArgument layout_of(const at::Tensor& tensor) {
  TensorArgument argument;
  argument.device = tensor.device();
  argument.dtype = tensor.scalar_type();
  argument.sizes = tensor.sizes().vec();
  argument.strides = tensor.strides().vec();
  argument.offset = tensor.storage_offset();
  argument.storage_bytes = static_cast<int64_t>(tensor.storage().nbytes());
  argument.is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return argument;
}

std::shared_ptr<const CapturedOp> capture_op(const c10::OperatorHandle& op, const OpInfo& info,
                                             const torch::jit::Stack& stack,
                                             std::span<const engine::Use> uses,
                                             std::vector<engine::LiveTensor*>& inputs) {
  if (!info.is_replayable || has_mode()) return nullptr;
  auto captured = std::make_shared<CapturedOp>(op);
  Inputs known(uses, inputs);
  c10::DeviceType device = c10::DeviceType::CPU;
  for (size_t i = stack.size() - info.argument_count; i < stack.size(); ++i) {
    std::optional<Argument> argument = capture_argument(stack[i], known);
    if (!argument) return nullptr;
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().is_cuda())
      device = c10::DeviceType::CUDA;
    captured->arguments.push_back(std::move(*argument));
  }
  captured->settings = current_settings(device);
  return captured;
}

}  // namespace teraio::pytorch
