#include "storages/captured_storages.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "storages/storage_walk.h"

namespace teraio::pytorch {
namespace {

using Storage = c10::intrusive_ptr<c10::StorageImpl>;
using Reference = c10::weak_intrusive_ptr<c10::StorageImpl>;

class CapturedStorages {
 public:
  void add(c10::StorageImpl& storage) {
    const std::lock_guard lock(mutex_);
    if (references_.contains(&storage)) return;  // alive or not: its address cannot be used anew
    c10::raw::weak_intrusive_ptr::incref(&storage);
    references_.emplace(&storage, Reference::reclaim(&storage));
    if (references_.size() > 2 * pruned_size_) prune();
  }

  std::vector<Storage> alive() {
    const std::lock_guard lock(mutex_);
    std::vector<Storage> found;
    for (const auto& [address, reference] : references_)
      if (Storage storage = reference.lock()) found.push_back(std::move(storage));
    return found;
  }

 private:
  void prune() {
    std::erase_if(references_, [](const auto& each) { return each.second.expired(); });
    pruned_size_ = std::max<size_t>(1000, references_.size());
  }

  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Reference> references_;
  size_t pruned_size_ = 1000;
};

CapturedStorages& captured() {
  static auto* instance = new CapturedStorages();  // storages may outlive static objects
  return *instance;
}

void note_storage_of(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.has_storage())
    note_captured(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace

std::atomic<int> captures_outside_of_sessions = 0;

void note_captured(c10::StorageImpl& storage) { captured().add(storage); }

void note_captured(const c10::IValue& value) {
  if (value.isTensor()) return note_storage_of(tensor_in(value));
  if (!value.isList()) return;
  for (const c10::IValue& element : value.toListRef())
    if (element.isTensor()) note_storage_of(tensor_in(element));
}

std::vector<c10::intrusive_ptr<c10::StorageImpl>> captured_storages() { return captured().alive(); }

}  // namespace teraio::pytorch
