// The storages of Python's objects. Any thread, with the GIL.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <pybind11/pybind11.h>

namespace teraio::pytorch {

// Returns null for an undefined tensor and for one without a storage, such as a sparse tensor.
c10::StorageImpl* storage_of(const at::Tensor& tensor);
// Returns the storage of a torch.Tensor or a torch.UntypedStorage.
c10::StorageImpl* storage_of(const pybind11::handle& object);

}  // namespace teraio::pytorch
