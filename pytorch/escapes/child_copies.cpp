#include "escapes/child_copies.h"

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "op_error.h"
#include "storages/active_session.h"
#include "storages/data_access_flag.h"
#include "storages/forked_child.h"
#include "storages/storage_swap.h"
#include "storages/tensor_handle.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::runtime_error(
      fmt::format("TERAIO: {} that a child process reads: {}", what, std::strerror(errno)));
}

bool write_all(int fd, const std::byte* bytes, int64_t size_bytes, int64_t offset_bytes) {
  while (size_bytes > 0) {
    const ssize_t written_bytes = pwrite(fd, bytes, static_cast<size_t>(size_bytes), offset_bytes);
    if (written_bytes < 0 && errno == EINTR) continue;
    if (written_bytes <= 0) return false;
    bytes += written_bytes;
    offset_bytes += written_bytes;
    size_bytes -= written_bytes;
  }
  return true;
}

}  // namespace

std::optional<engine::BytesVersion> bytes_version(c10::StorageImpl& storage) {
  TensorHandle* handle = handle_of(storage);
  const SessionUse use;
  const ActiveSession* session = use.get();
  if (handle == nullptr || session == nullptr || session->is_dry) return std::nullopt;
  if (size_bytes_of(*handle->tensor) < session->smallest_tensor_bytes) return std::nullopt;
  const py::gil_scoped_release no_gil;
  remember_storage(*handle, storage);
  engine::note_complete(*handle->tensor);
  std::optional<engine::BytesVersion> version;
  handle->runtime->while_nothing_moves([&] { version = engine::bytes_version(*handle->tensor); });
  return version;
}

void write_copy(c10::StorageImpl& storage, int fd, int64_t offset_bytes) {
  TensorHandle* handle = handle_of(storage);
  const py::gil_scoped_release no_gil;
  const StorageReferenceGuard guard;
  if (const Status status = handle->runtime->pin(handle->tensor); !status.ok())
    throw_status(status, "");
  const auto* bytes =
      static_cast<const std::byte*>(address_of(storage._mutable_data_ptr_no_checks()));
  const bool is_written =
      write_all(fd, bytes, static_cast<int64_t>(storage.nbytes()), offset_bytes);
  const int error = errno;
  handle->runtime->unpin(handle->tensor);
  errno = error;
  if (!is_written) throw_errno("cannot write the copy of a tensor");
}

void use_copy(c10::StorageImpl& storage, int fd, int64_t offset_bytes) {
  const TensorHandle* handle = handle_of(storage);
  if (handle == nullptr || !is_forked_child()) return;
  void* memory = mmap(nullptr, storage.nbytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_NORESERVE, fd, offset_bytes);
  if (memory == MAP_FAILED) throw_errno("cannot map the copy of a tensor");
  set_address(storage._mutable_data_ptr_no_checks(), memory);
  allow_data_access(storage);
}

}  // namespace teraio::pytorch
