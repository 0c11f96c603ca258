#include "testing/cuda_emulation/operators/operands.h"

#include <c10/core/CPUAllocator.h>

#include "testing/cuda_emulation/launch.h"

namespace teraio::testing::emulated_cuda {
namespace {

void copy_flags(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
  const bool is_number = from.unsafeGetTensorImpl()->is_wrapped_number();
  if (is_number) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

c10::Storage storage_on_cpu(const c10::Storage& storage, bool can_grow) {
  void* bytes = shadow_of(storage.data());
  c10::DataPtr pointer(
      bytes, bytes, [](void*) {}, c10::Device(c10::kCPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(pointer),
                      can_grow ? c10::GetCPUAllocator() : nullptr, can_grow);
}

bool is_optional_list(const c10::IValue& value) {
  return value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType;
}

}  // namespace

at::Tensor on_cpu(const at::Tensor& tensor, bool can_grow) {
  if (!tensor.defined()) return tensor;
  auto impl = c10::make_intrusive<c10::TensorImpl>(storage_on_cpu(tensor.storage(), can_grow),
                                                   c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                   tensor.dtype());
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  at::Tensor result(std::move(impl));
  copy_flags(tensor, result);
  return result;
}

at::Tensor Operands::convert_cpu_tensor(const at::Tensor& tensor, bool is_written) {
  writes_cpu_tensor_ |= is_written;
  if (is_written || !tensor.is_cpu()) return tensor;
  at::Tensor copy = tensor.clone();
  const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (is_number) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

at::Tensor Operands::convert_tensor(const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined()) {
    shapes_ << "undefined;";
    return tensor;
  }
  shapes_ << static_cast<int>(tensor.scalar_type()) << tensor.sizes();
  if (!tensor.is_sparse()) shapes_ << tensor.strides();
  shapes_ << ";";
  has_mask_ |= tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
  if (!tensor.is_cuda()) return convert_cpu_tensor(tensor, is_written);
  device_ = tensor.device();
  at::Tensor same = on_cpu(tensor, is_written);
  if (is_written) written_.emplace_back(same, tensor);
  return same;
}

template <typename Element>
c10::IValue Operands::convert_list(const c10::IValue& value, bool is_written) {
  c10::List<Element> list;
  shapes_ << "[";
  for (const c10::IValue& item : value.toListRef())
    list.push_back(item.isNone() ? Element()
                                 : Element(convert_tensor(item.toTensor(), is_written)));
  shapes_ << "]";
  return list;
}

c10::IValue Operands::convert(const c10::IValue& value, bool is_written) {
  if (value.isTensor()) return convert_tensor(value.toTensor(), is_written);
  if (value.isTensorList()) return convert_list<at::Tensor>(value, is_written);
  if (is_optional_list(value)) return convert_list<std::optional<at::Tensor>>(value, is_written);
  if (value.isDevice() && value.toDevice().is_cuda()) {
    device_ = value.toDevice();
    return c10::Device(c10::kCPU);
  }
  if (!value.isDevice() && !value.isGenerator()) shapes_ << value << ";";
  return value;
}

}  // namespace teraio::testing::emulated_cuda
