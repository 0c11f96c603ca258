#include "storages/fake_storage.h"

#include "op_error.h"
#include "running_op.h"
#include "storages/storage_swap.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

bool is_fake(const c10::StorageImpl& storage) {
  return storage.device_type() == c10::DeviceType::Meta;
}

}  // namespace

bool is_wrapper(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.is_python_dispatch()) return false;
  if (!impl.has_storage()) return !impl.is_sparse() && !impl.is_sparse_compressed();
  c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
  return !is_fake(storage) && !has_bytes(storage);
}

bool has_bytes(c10::StorageImpl& storage) {
  return storage._mutable_data_ptr_no_checks().get() != nullptr || handle_of(storage) != nullptr;
}

void count_fake_storage(const ActiveSession& session, c10::StorageImpl& storage) {
  if (!is_fake(storage) || storage.sym_nbytes().is_heap_allocated()) return;
  if (storage.nbytes() == 0 || handle_of(storage) != nullptr) return;
  const StorageReferenceGuard guard;
  const Result<NewTensor> counted =
      make_tensor(session.runtime, storage.device(), static_cast<int64_t>(storage.nbytes()));
  if (!counted.ok()) throw_status(counted.status(), current_op_name());
  storage.set_data_ptr_noswap(make_data_ptr(counted->handle, nullptr));
}

void recount_fake_storage(const ActiveSession& session, c10::StorageImpl& storage) {
  if (!is_fake(storage)) return;
  if (handle_of(storage) != nullptr)
    storage.set_data_ptr_noswap({nullptr, c10::Device(c10::DeviceType::Meta)});
  count_fake_storage(session, storage);
}

}  // namespace teraio::pytorch
