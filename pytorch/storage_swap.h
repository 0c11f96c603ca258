// TorchStorageSwap: takes the bytes of a PyTorch storage away and gives them back.
//
// An away storage keeps its object, size and views. Its DataPtr is null and it is flagged so that
// every access that no hook has seen (numpy, printing, an extension's data_ptr) raises an error
// that names the tensor, instead of reading stale bytes.
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

// detach and attach hold a storage for a moment; when that was its last reference, its death must
// not happen under the runtime's lock, nor may Python's lock be taken there. The references are
// left behind and dropped by this guard, which every caller of the runtime puts around the call.
class StorageReferenceGuard {
 public:
  StorageReferenceGuard() = default;
  ~StorageReferenceGuard();
  StorageReferenceGuard(const StorageReferenceGuard&) = delete;
  StorageReferenceGuard& operator=(const StorageReferenceGuard&) = delete;
};

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// While one lives, C++ code of PyTorch may compare past the operators whose bytes two tensors have
// (is_alias_of): that asks for no byte, but a storage that is away would raise its error. Those of
// `storages` that are away do not, nor what leaves meanwhile; a pointer to bytes is null.
//
// Threads: any, the end on another one too. Periods may overlap.
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
