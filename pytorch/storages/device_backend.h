// DeviceBackend: the parts of PyTorch that differ between the devices that a session can manage.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace teraio::pytorch {

// Where a thread enqueues what it does now.
struct ThreadPlace {
  bool is_capturing = false;  // a graph, as for DeviceBackend::is_capturing()
  // Not the session's. Before the thread uses tensors, stream_of_this_thread() is made to wait for
  // what the session has brought back of them (Runtime::order_stream()), and they stay resident
  // until it has finished with them (Runtime::record_stream()).
  bool is_on_other_stream = false;
  bool is_on_other_device = false;  // its current device is another one than the session's
};

// Threads: one thread at a time may call default_budget_bytes(), make_device() and install(); any
// thread may call the others. A backend lives until the process ends, because storages and
// allocators refer to it.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual c10::Device torch_device() const = 0;

  // Returns the device's total memory.
  virtual Result<int64_t> memory_bytes() const = 0;
  // Returns how much more memory the end of a session may take on the device before the system ends
  // the process; the largest number if the device refuses instead. `system_root` is "/", or a copy
  // of its proc and sys in tests.
  virtual int64_t available_bytes(const std::filesystem::path& /*system_root*/) const {
    return std::numeric_limits<int64_t>::max();
  }
  // Returns the budget of a session that sets none. Fails with kInvalidArgument on the CPU, whose
  // memory other programs share.
  virtual Result<int64_t> default_budget_bytes() const = 0;
  // Returns the device memory for one runtime. The backend must outlive it.
  virtual Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) = 0;

  // Makes PyTorch allocate on the device through the active session, and as before when no session
  // is active. The change is permanent, because memory that was allocated during a session may be
  // freed later. The calling thread's current stream becomes the session's: migrations are ordered
  // with it.
  virtual void install() = 0;

  // Returns whether the storage is on this device and its memory belongs to PyTorch's own
  // allocator.
  virtual bool owns(const c10::StorageImpl& storage) const = 0;
  // Likewise, but false for memory that was allocated during a graph capture, during a graph
  // capture, and on a thread whose stream is not the session's.
  virtual bool can_adopt(const c10::StorageImpl& storage) const { return owns(storage); }
  // Copies the bytes of a storage for which can_adopt() holds to other memory of the device, in the
  // order of the session's stream. May return before the copy is done; the storage's memory may be
  // freed then, and is not used again before the copy is done.
  virtual void copy(std::byte* to, const c10::StorageImpl& from) = 0;

  // Returns whether the device has streams. Without them the functions below have no effect, and
  // the observer skips them.
  virtual bool has_streams() const { return false; }

  // Returns whether the calling thread is capturing a graph. The graph replays later with the same
  // addresses, and nothing may move or wait during the capture.
  virtual bool is_capturing() const { return false; }
  // All of it with one question to the framework and one to the driver, which cost as much as
  // everything else that is done for an op.
  virtual ThreadPlace place_of_this_thread() const { return {}; }
  virtual void* stream_of_this_thread() const { return nullptr; }
  // Runs call() with the session's stream as the calling thread's current stream. Raises what
  // call() raises.
  virtual void run_on_session_stream(const std::function<void()>& call) { call(); }
};

// Returns the backend of `device`: "cpu", "cuda" (the same as "cuda:0") or "cuda:1". It lives until
// the process ends. The message of a failure names the device and what was expected. Threads: one
// at a time.
Result<DeviceBackend*> find_backend(const std::string& device);

}  // namespace teraio::pytorch
