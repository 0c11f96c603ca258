#include "bindings/python_storage.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

namespace teraio::pytorch {

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

c10::StorageImpl* storage_of(const pybind11::handle& object) {
  if (THPVariable_Check(object.ptr())) return storage_of(THPVariable_Unpack(object.ptr()));
  return torch::createStorage(object.ptr()).unsafeGetStorageImpl();
}

}  // namespace teraio::pytorch
