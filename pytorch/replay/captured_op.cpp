#include "replay/captured_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace teraio::pytorch {

bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return tensor.layout() == c10::kStrided && impl.has_storage() && !impl.is_python_dispatch() &&
         !impl.is_quantized() && !impl.is_nested() && !impl.has_symbolic_sizes_strides() &&
         !impl.is_conj() && !impl.is_neg() && !impl._is_zerotensor() &&
         (impl.device().is_cpu() || impl.device().is_cuda()) &&
         !impl.key_set().has(c10::DispatchKey::Functionalize);
}

TensorLayout layout_of(const at::Tensor& tensor) {
  TensorLayout layout;
  layout.device = tensor.device();
  layout.dtype = tensor.scalar_type();
  layout.sizes = tensor.sizes().vec();
  layout.strides = tensor.strides().vec();
  layout.offset = tensor.storage_offset();
  layout.storage_bytes = static_cast<int64_t>(tensor.storage().nbytes());
  layout.is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return layout;
}

std::string CapturedOp::name_of_result(size_t result) const {
  const TensorLayout& layout = made[result].layout;
  return fmt::format("op {}: {} [{}]", name, c10::toString(layout.dtype),
                     fmt::join(layout.sizes, ", "));
}

std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (!value.isList()) continue;
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) tensors.push_back(element.toTensor());
  }
  return tensors;
}

}  // namespace teraio::pytorch
