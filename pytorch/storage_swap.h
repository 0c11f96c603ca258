// TorchStorageSwap: detaches the bytes of a PyTorch storage and attaches them again.
//
// An offloaded storage keeps its object, size and views. Its DataPtr is null, and a flag makes
// every access that no hook has seen (numpy, printing, an extension's data_ptr) raise an error that
// names the tensor, instead of reading stale bytes.
#pragma once

#include <memory>
#include <vector>

#include "engine/live_tensor.h"
#include "tensor_handle.h"

namespace teraio::pytorch {

class TorchStorageSwap final : public engine::StorageSwap {
 public:
  bool detach(engine::LiveTensor& tensor, void* owner) override;
  void attach(engine::LiveTensor& tensor, void* owner, std::byte* memory) override;
};

// Drops the storage references that detach and attach took. Such a reference may be the last one,
// and the storage's death must not happen under the runtime's lock, nor may the GIL be taken there.
// detach and attach therefore leave their references to this guard, which every caller of the
// runtime puts around the call.
class StorageReferenceGuard {
 public:
  StorageReferenceGuard() = default;
  ~StorageReferenceGuard();
  StorageReferenceGuard(const StorageReferenceGuard&) = delete;
  StorageReferenceGuard& operator=(const StorageReferenceGuard&) = delete;
};

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Allows C++ code of PyTorch to compare the storages of two tensors (is_alias_of) without an
// operator while this object lives. The comparison reads no byte, but an offloaded storage would
// raise its error. Offloaded storages among `storages` raise none, nor do those that are offloaded
// meanwhile; their data pointers are null.
//
// Threads: any; another thread may destroy the object. Scopes may overlap.
class AliasCheckScope {
 public:
  AliasCheckScope(std::shared_ptr<engine::Runtime> runtime,
                  const std::vector<WeakStorage>& storages);
  ~AliasCheckScope();
  AliasCheckScope(const AliasCheckScope&) = delete;
  AliasCheckScope& operator=(const AliasCheckScope&) = delete;

 private:
  std::shared_ptr<engine::Runtime> runtime_;
};

}  // namespace teraio::pytorch
