#include "storages/storage_swap.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "base/units.h"
#include "storages/data_access_flag.h"
#include "storages/data_pointer.h"

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

std::string access_message(const engine::LiveTensor& tensor) {
  return fmt::format(
      "TERAIO: tensor {} ({}) is not on the device or may leave it, and its bytes were accessed "
      "outside of a PyTorch operator, by a thread that TERAIO does not observe, or in a child "
      "process. Use it in an operator, or call teraio.pin(tensor) first: before a fork, if a child "
      "process uses it, or tensor.share_memory_()",
      id_of(tensor), format_size(size_bytes_of(tensor)));
}

void forbid_access(c10::StorageImpl& storage, TensorHandle& handle) {
  if (!std::exchange(handle.has_access_message, true))
    set_access_message(storage, access_message(*handle.tensor));
  forbid_data_access(storage);
}

// Whether an access to the storage's bytes outside of an op has to raise an error.
bool is_protected(c10::StorageImpl& storage, const TensorHandle& handle) {
  return handle.is_guarded || storage._mutable_data_ptr_no_checks().get() == nullptr;
}

// The protected storages that raise no error while an AliasCheckScope lives.
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

// Calls `call` for each of the storages that is alive and protected. The storages' references are
// left to the StorageReferenceGuard, so that none is freed here.
template <typename Call>
void for_each_protected(const std::vector<WeakStorage>& storages, Call call) {
  for (const WeakStorage& weak : storages) {
    StorageReference storage = weak.lock();
    if (!storage) continue;
    TensorHandle* handle = handle_of(*storage);
    if (handle != nullptr && is_protected(*storage, *handle)) call(storage, *handle);
    leave_behind(std::move(storage));
  }
}

}  // namespace

AliasCheckScope::AliasCheckScope(std::shared_ptr<runtime::Runtime> runtime,
                                 const std::vector<WeakStorage>& storages)
    : runtime_(std::move(runtime)) {
  const StorageReferenceGuard guard;
  silenced_storages().begin();
  runtime_->while_nothing_moves([&] {
    for_each_protected(storages, [](const StorageReference& storage, TensorHandle&) {
      if (silenced_storages().add(storage)) allow_data_access(*storage);
    });
  });
}

AliasCheckScope::~AliasCheckScope() {
  const StorageReferenceGuard guard;
  runtime_->while_nothing_moves([] {
    for_each_protected(silenced_storages().end(),
                       [](const StorageReference& storage, TensorHandle& handle) {
                         forbid_access(*storage, handle);
                       });
  });
}

StorageReferenceGuard::~StorageReferenceGuard() {
  if (!has_references_left_behind) return;
  has_references_left_behind = false;
  std::vector<StorageReference> dropped;
  dropped.swap(references_left_behind);
}

// Calls with the storage of the tensor's handle. False: it has died or has got another DataPtr.
template <typename Call>
bool TorchStorageSwap::with_storage(void* owner, Call call) {
  auto* handle = static_cast<TensorHandle*>(owner);
  if (handle == nullptr || !handle->storage) return false;
  StorageReference storage = handle->storage->lock();
  if (!storage) return false;
  const bool is_ours = handle_of(*storage) == handle;
  if (is_ours) call(storage, *handle);
  leave_behind(std::move(storage));
  return is_ours;
}

bool TorchStorageSwap::detach(engine::LiveTensor& /*tensor*/, void* owner) {
  return with_storage(owner, [](const StorageReference& storage, TensorHandle& handle) {
    handle.is_guarded = false;
    set_address(storage->_mutable_data_ptr_no_checks(), nullptr);
    if (!silenced_storages().add(storage)) forbid_access(*storage, handle);
  });
}

void TorchStorageSwap::attach(engine::LiveTensor& /*tensor*/, void* owner, std::byte* memory) {
  with_storage(owner, [&](const StorageReference& storage, TensorHandle&) {
    set_address(storage->_mutable_data_ptr_no_checks(), memory);
    allow_data_access(*storage);
  });
}

void TorchStorageSwap::guard(engine::LiveTensor& /*tensor*/, void* owner, bool is_guarded) {
  with_storage(owner, [&](const StorageReference& storage, TensorHandle& handle) {
    handle.is_guarded = is_guarded;
    if (!is_guarded) return allow_data_access(*storage);
    if (!silenced_storages().add(storage)) forbid_access(*storage, handle);
  });
}

}  // namespace teraio::pytorch
