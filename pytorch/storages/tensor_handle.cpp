#include "storages/tensor_handle.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "storages/forked_child.h"

namespace teraio::pytorch {
namespace {

// Handles of memory that no op has used yet, by address. The memory may also belong to a library:
// oneDNN allocates through PyTorch and keeps only the address. What has come last goes first,
// nearly always, and there are few: a search from the end finds it at once.
class Newborns {
 public:
  void add(void* memory, TensorHandle* handle) {
    const std::lock_guard lock(mutex_);
    handles_.emplace_back(memory, handle);
  }

  TensorHandle* take(void* memory) {
    const std::lock_guard lock(mutex_);
    return take_locked(memory);
  }

  // Makes the handle of a DataPtr's memory its context, unless another thread has done so.
  void name(c10::DataPtr& data_ptr) {
    const std::lock_guard lock(mutex_);
    TensorHandle* handle = take_locked(data_ptr.get_context());
    if (handle != nullptr) set_context(data_ptr, handle, &release_handle);
  }

  TensorHandle* find(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = find_unlocked(memory);
    return found == handles_.rend() ? nullptr : found->second;
  }

  // For a forked child, where the lock may be held by a thread that exists only in the parent.
  bool contains_unlocked(void* memory) { return find_unlocked(memory) != handles_.rend(); }

 private:
  using Handles = std::vector<std::pair<void*, TensorHandle*>>;

  Handles::reverse_iterator find_unlocked(void* memory) {
    return std::find_if(handles_.rbegin(), handles_.rend(),
                        [&](const auto& each) { return each.first == memory; });
  }

  TensorHandle* take_locked(void* memory) {
    const auto found = find_unlocked(memory);
    if (found == handles_.rend()) return nullptr;
    TensorHandle* handle = found->second;
    *found = handles_.back();
    handles_.pop_back();
    return handle;
  }

  std::mutex mutex_;
  Handles handles_;
};

Newborns& newborns() {
  static auto* instance = new Newborns();  // memory may be freed when the process ends
  return *instance;
}

}  // namespace

bool release_newborn(void* memory) {
  if (is_forked_child()) return newborns().contains_unlocked(memory);
  TensorHandle* handle = newborns().take(memory);
  if (handle != nullptr) release_handle(handle);
  return handle != nullptr;
}

void delete_newborn(void* memory) { (void)release_newborn(memory); }

c10::DataPtr make_newborn_data_ptr(TensorHandle* handle, std::byte* memory) {
  newborns().add(memory, handle);
  return {memory, memory, &delete_newborn, handle->device};
}

void release_handle(void* context) {
  if (is_forked_child()) return;
  auto* handle = static_cast<TensorHandle*>(context);
  handle->runtime->release(handle->tensor);
  delete handle;
}

c10::DataPtr make_data_ptr(TensorHandle* handle, std::byte* memory) {
  return {memory, handle, &release_handle, handle->device};
}

Result<NewTensor> make_tensor(const std::shared_ptr<runtime::Runtime>& runtime, c10::Device device,
                              int64_t size_bytes) {
  const Result<runtime::Allocation> allocation = runtime->allocate(size_bytes);
  if (!allocation.ok()) return allocation.status();
  auto handle = std::make_unique<TensorHandle>();
  handle->runtime = runtime;
  handle->tensor = allocation->tensor;
  handle->device = device;
  return NewTensor{handle.release(), allocation->memory};
}

c10::DeleterFnPtr name_newborn(c10::DataPtr& data_ptr) {
  if (!is_forked_child()) newborns().name(data_ptr);
  return deleter_of(data_ptr);
}

TensorHandle* handle_behind(const c10::DataPtr& data_ptr) {
  if (data_ptr.get_deleter() == &release_handle)
    return static_cast<TensorHandle*>(data_ptr.get_context());
  return newborns().find(data_ptr.get_context());
}

void remember_new_storage(TensorHandle& handle, c10::StorageImpl& storage) {
  const c10::StorageImpl* known = handle.storage_identity.load(std::memory_order_relaxed);
  c10::raw::weak_intrusive_ptr::incref(&storage);
  auto reference = std::optional(c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(&storage));
  // Nobody reads the reference before the engine knows the owner. One of several threads sets both.
  if (known == nullptr && handle.storage_identity.compare_exchange_strong(known, &storage)) {
    handle.storage = std::move(reference);
    set_owner(*handle.tensor, &handle);
  } else if (known != &storage) {  // the DataPtr has changed its storage
    handle.runtime->while_nothing_moves([&] { std::swap(handle.storage, reference); });
    handle.storage_identity.store(&storage, std::memory_order_relaxed);
  }
}

}  // namespace teraio::pytorch
