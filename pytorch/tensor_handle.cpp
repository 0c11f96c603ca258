#include "tensor_handle.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "forked_child.h"

namespace teraio::pytorch {
namespace {

// Handles of memory that no op has used yet, by address. The memory may also belong to a library:
// oneDNN allocates through PyTorch and keeps only the address.
class Newborns {
 public:
  void add(void* memory, TensorHandle* handle) {
    const std::lock_guard lock(mutex_);
    handles_[memory] = handle;
  }

  TensorHandle* take(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto node = handles_.extract(memory);
    return node.empty() ? nullptr : node.mapped();
  }

  TensorHandle* find(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(memory);
    return found == handles_.end() ? nullptr : found->second;
  }

  // For a forked child, where the lock may be held by a thread that exists only in the parent.
  bool contains_unlocked(void* memory) const { return handles_.count(memory) != 0; }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, TensorHandle*> handles_;
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

static void delete_newborn(void* memory) { (void)release_newborn(memory); }

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

Result<NewTensor> make_tensor(const std::shared_ptr<engine::Runtime>& runtime, c10::Device device,
                              int64_t size_bytes) {
  const Result<engine::Allocation> allocation = runtime->allocate(size_bytes);
  if (!allocation.ok()) return allocation.status();
  auto handle = std::make_unique<TensorHandle>();
  handle->runtime = runtime;
  handle->tensor = allocation->tensor;
  handle->device = device;
  return NewTensor{handle.release(), allocation->memory};
}

// Replaces the context of the storage's DataPtr, which is the memory, by the handle.
static void name_newborn(c10::StorageImpl& storage) {
  c10::DataPtr& data_ptr = storage._mutable_data_ptr_no_checks();
  TensorHandle* handle = newborns().take(data_ptr.get_context());
  if (handle == nullptr) return;  // another thread has taken it and replaces the context
  auto* memory = static_cast<std::byte*>(data_ptr.release_context());
  data_ptr = make_data_ptr(handle, memory);
}

TensorHandle* handle_of(c10::StorageImpl& storage) {
  const c10::DataPtr& data_ptr = storage._mutable_data_ptr_no_checks();
  if (data_ptr.get_deleter() == &delete_newborn && !is_forked_child()) name_newborn(storage);
  if (data_ptr.get_deleter() != &release_handle) return nullptr;
  return static_cast<TensorHandle*>(data_ptr.get_context());
}

TensorHandle* handle_behind(const c10::DataPtr& data_ptr) {
  if (data_ptr.get_deleter() == &release_handle)
    return static_cast<TensorHandle*>(data_ptr.get_context());
  return newborns().find(data_ptr.get_context());
}

void remember_storage(TensorHandle& handle, c10::StorageImpl& storage) {
  if (handle.storage_identity == &storage) return;
  c10::raw::weak_intrusive_ptr::incref(&storage);
  handle.storage = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(&storage);
  handle.storage_identity = &storage;
  handle.runtime->set_owner(handle.tensor, &handle);
}

}  // namespace teraio::pytorch
