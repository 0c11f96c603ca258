#include "storage_swap.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "base/units.h"
#include "data_access_flag.h"

namespace teraio::pytorch {
namespace {

using StorageReference = c10::intrusive_ptr<c10::StorageImpl>;

thread_local std::vector<StorageReference> references_left_behind;
thread_local bool has_references_left_behind = false;  // cheaper to read than the vector

// Leaves the reference to the thread's StorageReferenceGuard.
void leave_behind(StorageReference storage) {
  references_left_behind.push_back(std::move(storage));
  has_references_left_behind = true;
}

std::string offloaded_message(const engine::LiveTensor& tensor) {
  return fmt::format(
      "TERAIO: tensor {} ({}) is not on the device: it is offloaded, and its bytes were accessed "
      "outside of a PyTorch operator. Use it in an operator, or call teraio.pin(tensor) first",
      id_of(tensor), format_size(size_bytes_of(tensor)));
}

// Replaces the DataPtr without calling the deleter of the previous one: the handle lives on.
void replace_data_ptr(c10::StorageImpl& storage, c10::DataPtr replacement) {
  c10::DataPtr previous =
      std::exchange(storage._mutable_data_ptr_no_checks(), std::move(replacement));
  previous.release_context();
}

bool is_offloaded(c10::StorageImpl& storage) {
  return storage._mutable_data_ptr_no_checks().get() == nullptr;
}

// The offloaded storages that raise no error while an AliasCheckScope lives.
class SilencedStorages {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++period_count_;
  }

  bool add(const StorageReference& storage) {
    const std::lock_guard lock(mutex_);
    if (period_count_ == 0) return false;
    storages_.emplace_back(storage);
    return true;
  }

  // Returns the storages that have to raise errors again.
  std::vector<WeakStorage> end() {
    const std::lock_guard lock(mutex_);
    return --period_count_ == 0 ? std::exchange(storages_, {}) : std::vector<WeakStorage>();
  }

 private:
  std::mutex mutex_;
  int64_t period_count_ = 0;
  std::vector<WeakStorage> storages_;
};

SilencedStorages& silenced_storages() {
  static auto* instance = new SilencedStorages();  // storages may outlive static objects
  return *instance;
}

// Calls `call` for each of the storages that is alive and offloaded. The storages' references are
// left to the StorageReferenceGuard, so that none is freed here.
template <typename Call>
void for_each_offloaded(const std::vector<WeakStorage>& storages, Call call) {
  for (const WeakStorage& weak : storages) {
    StorageReference storage = weak.lock();
    if (!storage) continue;
    const TensorHandle* handle = handle_of(*storage);
    if (handle != nullptr && is_offloaded(*storage)) call(storage, *handle);
    leave_behind(std::move(storage));
  }
}

}  // namespace

AliasCheckScope::AliasCheckScope(std::shared_ptr<engine::Runtime> runtime,
                                 const std::vector<WeakStorage>& storages)
    : runtime_(std::move(runtime)) {
  const StorageReferenceGuard guard;
  silenced_storages().begin();
  runtime_->while_nothing_moves([&] {
    for_each_offloaded(storages, [](const StorageReference& storage, const TensorHandle&) {
      if (silenced_storages().add(storage)) allow_data_access(*storage);
    });
  });
}

AliasCheckScope::~AliasCheckScope() {
  const StorageReferenceGuard guard;
  runtime_->while_nothing_moves([] {
    for_each_offloaded(silenced_storages().end(),
                       [](const StorageReference& storage, const TensorHandle& handle) {
                         forbid_data_access(*storage, offloaded_message(*handle.tensor));
                       });
  });
}

StorageReferenceGuard::~StorageReferenceGuard() {
  if (!has_references_left_behind) return;
  has_references_left_behind = false;
  std::vector<StorageReference> dropped;
  dropped.swap(references_left_behind);
}

bool TorchStorageSwap::detach(engine::LiveTensor& tensor, void* owner) {
  auto* handle = static_cast<TensorHandle*>(owner);
  if (handle == nullptr || !handle->storage) return false;
  StorageReference storage = handle->storage->lock();
  if (!storage) return false;
  const bool is_ours = handle_of(*storage) == handle;
  if (is_ours) {
    replace_data_ptr(*storage, make_data_ptr(handle, nullptr));
    if (!silenced_storages().add(storage)) forbid_data_access(*storage, offloaded_message(tensor));
  }
  leave_behind(std::move(storage));
  return is_ours;
}

void TorchStorageSwap::attach(engine::LiveTensor& /*tensor*/, void* owner, std::byte* memory) {
  auto* handle = static_cast<TensorHandle*>(owner);
  if (handle == nullptr || !handle->storage) return;
  StorageReference storage = handle->storage->lock();
  if (!storage) return;
  if (handle_of(*storage) == handle) {
    replace_data_ptr(*storage, make_data_ptr(handle, memory));
    allow_data_access(*storage);
  }
  leave_behind(std::move(storage));
}

}  // namespace teraio::pytorch
