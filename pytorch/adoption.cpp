#include "adoption.h"

#include <cstring>

#include "budgeted_allocator.h"
#include "op_observer.h"
#include "storage_swap.h"

namespace teraio::pytorch {
namespace {

bool can_adopt(const ActiveSession& session, c10::StorageImpl& storage) {
  const c10::DataPtr& data_ptr = storage._mutable_data_ptr_no_checks();
  return storage.device_type() == c10::DeviceType::CPU && data_ptr.get() != nullptr &&
         static_cast<int64_t>(storage.nbytes()) >= session.smallest_tensor_bytes &&
         storage.resizable() && data_ptr.get_deleter() == stock_allocator()->raw_deleter();
}

}  // namespace

TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage) {
  if (!can_adopt(session, storage)) return nullptr;
  const StorageReferenceGuard guard;
  const size_t size_bytes = storage.nbytes();
  Result<TensorHandle*> handle = make_handle(session.runtime, static_cast<int64_t>(size_bytes));
  if (!handle.ok()) throw_status(handle.status(), current_op_name());
  std::memcpy((*handle)->tensor->memory, storage.data(), size_bytes);
  storage.set_data_ptr_noswap(make_data_ptr(*handle, (*handle)->tensor->memory));
  (*handle)->tensor->is_adopted = true;
  return *handle;
}

}  // namespace teraio::pytorch
