// A device on which nobody learns of the end of a copy to the host before the test opens the gate.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "testing/forwarding_device.h"

namespace teraio::testing {

// Threads: any.
class GatedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void open_gate() {
    is_open_ = true;
    is_open_.notify_all();
  }
  void close_gate() { is_open_ = false; }

 private:
  Result<device::Event> start_copy(const Copy& copy) override {
    if (!copy.is_to_host) return ForwardingDevice::start_copy(copy);
    const std::lock_guard lock(mutex_);
    const auto end = ForwardingDevice::start_copy(copy);
    if (end.ok()) gated_.insert(end->id);
    return end;
  }
  Status wait_for(device::Event event) override {
    if (is_gated(event)) is_open_.wait(false);
    return ForwardingDevice::wait_for(event);
  }
  bool is_gated(device::Event event) {
    const std::lock_guard lock(mutex_);
    return gated_.count(event.id) > 0;
  }

  std::mutex mutex_;
  std::unordered_set<uint64_t> gated_;  // ends of copies to the host
  std::atomic<bool> is_open_ = true;
};

}  // namespace teraio::testing
