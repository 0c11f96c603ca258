// TorchStorageSwap: detaches the bytes of a PyTorch storage and attaches them again.
//
// An offloaded storage keeps its object, size and views. Its DataPtr is null, and a flag makes each
// access to its bytes without an observed operator (an extension's data_ptr<T>(), for example)
// raise an error that names the tensor. A storage on the device has the flag while the engine
// guards it.
#pragma once

#include <memory>
#include <vector>

#include "engine/live_tensor.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {

// The owner of a tensor is its TensorHandle. The engine calls all functions with the runtime's
// lock. They never free a storage: see StorageReferenceGuard.
class TorchStorageSwap final : public engine::StorageSwap {
 public:
  // Returns false and changes nothing when the storage has died or has got another DataPtr.
  bool detach(engine::LiveTensor& tensor, void* owner) override;
  void attach(engine::LiveTensor& tensor, void* owner, std::byte* memory) override;
  void guard(engine::LiveTensor& tensor, void* owner, bool is_guarded) override;

 private:
  template <typename Call>
  static bool with_storage(void* owner, Call call);
};

// Drops the storage references that TorchStorageSwap and AliasCheckScope took on this thread. Such
// a reference may have become the last one. Freeing a storage takes the runtime's lock and may take
// the GIL, so it must not happen under the runtime's lock. Callers of the runtime put this guard
// around each call that may offload or restore a tensor: allocate(), begin_op(), end_op(),
// end_step(), pin(), pin_permanently(), record_stream(), stop() and discard().
//
// Threads: one creates and destroys it, without the runtime's lock. Guards may be nested: the
// innermost one drops the references.
class StorageReferenceGuard {
 public:
  StorageReferenceGuard() = default;
  ~StorageReferenceGuard();
  StorageReferenceGuard(const StorageReferenceGuard&) = delete;
  StorageReferenceGuard& operator=(const StorageReferenceGuard&) = delete;
};

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Allows C++ code of PyTorch to compare the storages of two tensors (is_alias_of) without an
// operator while this object lives. The comparison reads no byte, but it asks for the data pointer,
// and an offloaded or guarded storage raises its error then. While the scope lives, such storages
// among `storages`, and all that become so meanwhile, return their address or null instead. The
// last scope that ends restores the error.
//
// Threads: any, without the runtime's lock; another thread may destroy the object. Scopes may
// overlap.
class AliasCheckScope {
 public:
  AliasCheckScope(std::shared_ptr<runtime::Runtime> runtime,
                  const std::vector<WeakStorage>& storages);
  ~AliasCheckScope();
  AliasCheckScope(const AliasCheckScope&) = delete;
  AliasCheckScope& operator=(const AliasCheckScope&) = delete;

 private:
  std::shared_ptr<runtime::Runtime> runtime_;
};

}  // namespace teraio::pytorch
