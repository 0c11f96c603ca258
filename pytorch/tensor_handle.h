// TensorHandle: connects a PyTorch storage with the engine's LiveTensor.
//
// The handle is the context of the storage's DataPtr from the storage's first op to its death,
// whether resident or offloaded. The context therefore identifies a storage, never its address, and
// the deleter reports its death. Before the first op the context is the memory itself, as PyTorch's
// raw_allocate() requires.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>

#include "engine/runtime.h"

namespace teraio::pytorch {

struct TensorHandle {
  std::shared_ptr<engine::Runtime> runtime;  // outlives every storage that it gave memory to
  engine::LiveTensor* tensor = nullptr;
  c10::Device device = c10::Device(c10::DeviceType::CPU);  // of the memory, for PyTorch
  // Known from the first op that uses the storage. It is weak, because autograd decides by use
  // counts whether it steals or copies a gradient.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
  const c10::StorageImpl* storage_identity = nullptr;  // only compared, never dereferenced
};

// Returns a DataPtr over `memory` (null when the tensor is offloaded) that owns `handle`.
c10::DataPtr make_data_ptr(TensorHandle* handle, std::byte* memory);

// As make_data_ptr(), for memory that may not belong to a storage.
c10::DataPtr make_newborn_data_ptr(TensorHandle* handle, std::byte* memory);

// A new tensor of the runtime: its memory, and its handle, of which make_data_ptr() takes
// ownership.
struct NewTensor {
  TensorHandle* handle = nullptr;
  std::byte* memory = nullptr;
};
Result<NewTensor> make_tensor(const std::shared_ptr<engine::Runtime>& runtime, c10::Device device,
                              int64_t size_bytes);

// Returns the handle of `storage`, or null when the runtime does not own its memory.
TensorHandle* handle_of(c10::StorageImpl& storage);

// As handle_of(), for memory that may not belong to a storage; the call does not assign it to one.
TensorHandle* handle_behind(const c10::DataPtr& data_ptr);

// Records the storage of the handle's tensor, after which the engine may move the tensor.
void remember_storage(TensorHandle& handle, c10::StorageImpl& storage);

// The DataPtr deleter of the storages that the runtime manages.
void release_handle(void* handle);

// Frees memory of make_newborn_data_ptr(). Returns false when `memory` is not of that kind.
bool release_newborn(void* memory);

}  // namespace teraio::pytorch
