#include "escapes/pin.h"

#include <pybind11/pybind11.h>

#include <utility>

#include "op_error.h"
#include "storages/active_session.h"
#include "storages/adoption.h"
#include "storages/forked_child.h"
#include "storages/storage_swap.h"
#include "storages/tensor_handle.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// Returns the storage's handle. If no op of the running session has used the storage yet, adopts
// it, so that its address does not change later.
TensorHandle* adopted_handle_of(c10::StorageImpl& storage) {
  if (TensorHandle* handle = handle_of(storage)) return handle;
  const SessionUse use;
  ActiveSession* session = use.get();
  if (session == nullptr || session->is_dry || is_forked_child()) return nullptr;
  const py::gil_scoped_release no_gil;
  return adopt(*session, storage);
}

}  // namespace

Pin::Pin(c10::StorageImpl* storage, bool adopts) {
  if (storage == nullptr) return;
  TensorHandle* handle = adopts ? adopted_handle_of(*storage) : handle_of(*storage);
  if (handle == nullptr || is_forked_child()) return;
  storage_ = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  runtime_ = handle->runtime;
  tensor_ = handle->tensor;
  const py::gil_scoped_release no_gil;
  remember_storage(*handle, *storage);
  const StorageReferenceGuard guard;
  // The program may change the bytes without an op.
  if (const Status status = runtime_->pin(tensor_, /*is_write=*/true); !status.ok()) {
    tensor_ = nullptr;
    throw_status(status, "");
  }
}

Pin::~Pin() { release(); }

void Pin::release() {
  if (tensor_ == nullptr || is_forked_child()) return;
  const py::gil_scoped_release no_gil;
  runtime_->unpin(std::exchange(tensor_, nullptr), /*is_write=*/true);
}

bool pin_address(c10::StorageImpl* storage) {
  TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage);
  if (is_forked_child()) return false;
  if (handle == nullptr) return keep_in_place(storage) > 0;
  const py::gil_scoped_release no_gil;
  const StorageReferenceGuard guard;
  remember_storage(*handle, *storage);
  if (const Status status = handle->runtime->pin_permanently(handle->tensor); !status.ok())
    throw_status(status, "");
  return true;
}

int64_t keep_in_place(c10::StorageImpl* storage) {
  const SessionUse use;
  const ActiveSession* session = use.get();
  if (storage == nullptr || session == nullptr || session->is_dry || is_forked_child()) return 0;
  const py::gil_scoped_release no_gil;
  return keep_in_place(*session, *storage);
}

}  // namespace teraio::pytorch
