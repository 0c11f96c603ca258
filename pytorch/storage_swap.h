// TorchStorageSwap: takes the bytes of a PyTorch storage away and gives them back.
//
// An away storage keeps its object, size and views. Its DataPtr is null and it is flagged so that
// every access that no hook has seen (numpy, printing, an extension's data_ptr) raises an error
// that names the tensor, instead of reading stale bytes.
#pragma once

#include <vector>

#include "engine/live_tensor.h"
#include "tensor_handle.h"

namespace teraio::pytorch {

class TorchStorageSwap final : public StorageSwap {
 public:
  bool detach(LiveTensor& tensor) override;
  void attach(LiveTensor& tensor) override;
  void forget(LiveTensor& tensor) override { tensor.owner = nullptr; }
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

}  // namespace teraio::pytorch
