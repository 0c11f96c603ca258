// TensorHandle: the tie between a PyTorch storage and the engine's LiveTensor.
//
// It is the context of the storage's DataPtr from its first op to its death, resident or away, so a
// storage is recognised by what it owns and never by its address, and its death is told by the
// deleter. Before the first op the context is the memory itself, as PyTorch's raw_allocate() needs.
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
  c10::Device device = c10::Device(c10::DeviceType::CPU);  // that PyTorch knows the memory on
  // Known from the first op that shows the storage; weak, because use counts decide in autograd
  // whether a gradient is stolen or copied.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
  const c10::StorageImpl* storage_identity = nullptr;  // compared, never followed
};

// A DataPtr over `memory` (null when the tensor is away) that owns `handle`.
c10::DataPtr make_data_ptr(TensorHandle* handle, std::byte* memory);

// The same for memory that may not even be a storage's.
c10::DataPtr make_newborn_data_ptr(TensorHandle* handle, std::byte* memory);

// A new tensor of the runtime: its handle, which make_data_ptr() takes over, and its memory.
struct NewTensor {
  TensorHandle* handle = nullptr;
  std::byte* memory = nullptr;
};
Result<NewTensor> make_tensor(const std::shared_ptr<engine::Runtime>& runtime, c10::Device device,
                              int64_t size_bytes);

// Null for storages whose memory is not ours.
TensorHandle* handle_of(c10::StorageImpl& storage);

// The same for memory that may not be a storage's, which it does not become one by.
TensorHandle* handle_behind(const c10::DataPtr& data_ptr);

// Lets the engine move the handle's tensor: its storage is now known.
void remember_storage(TensorHandle& handle, c10::StorageImpl& storage);

// The DataPtr deleter of our storages.
void release_handle(void* handle);

// Frees memory of make_newborn_data_ptr(). False when it is not of that kind.
bool release_newborn(void* memory);

}  // namespace teraio::pytorch
