// DeviceBackend: what of PyTorch differs between the devices that a session can manage.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace teraio::pytorch {

// Threads: install() and the two calls before it by one thread; the others by any. A backend lives
// as long as the process: storages and allocators refer to it.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual c10::Device torch_device() const = 0;

  // All that there is.
  virtual Result<int64_t> memory_bytes() const = 0;
  // For a session without a budget of its own.
  virtual Result<int64_t> default_budget_bytes() const = 0;
  virtual Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) = 0;

  // From now on PyTorch allocates on the device through the active session, and without one as
  // before. For good: what was allocated during a session may be freed later. The calling thread's
  // stream is the one on which tensors may move.
  virtual void install() = 0;

  // Memory of PyTorch's own that nothing else is known to point to.
  virtual bool can_adopt(const c10::StorageImpl& storage) const = 0;
  // In compute order.
  virtual void copy(std::byte* to, const void* from, size_t size_bytes) = 0;

  // Whether the calls below ever do anything; asked once, as they are asked at every op otherwise.
  virtual bool has_streams() const { return false; }

  // What the calling thread does now is recorded to be repeated later, with these very addresses,
  // and nothing may be moved or waited for meanwhile.
  virtual bool is_capturing() const { return false; }
  // It goes to another stream than the session's, stream_of_this_thread(): what it uses stays until
  // that is done. order_this_thread() makes it wait for what the session's stream was told before.
  virtual bool is_on_other_stream() const { return false; }
  virtual void* stream_of_this_thread() const { return nullptr; }
  virtual void order_this_thread() {}
};

// "cpu", "cuda", "cuda:1". A failure names the device and what was expected.
Result<DeviceBackend*> find_backend(const std::string& device);

}  // namespace teraio::pytorch
