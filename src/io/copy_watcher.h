// CopyWatcher: tells when copies of a device end.
//
// A thread per direction waits for them, in the order in which they began. A copy to the host may
// wait for compute that the program has only just enqueued, and the copies from the host that have
// ended meanwhile are told nevertheless.
//
// A copy that is slow to begin hides the ends of later ones of its direction and of this watcher,
// even if they did not wait for it. Each drive and each tier has a watcher, so that this delays
// only what its queue holds to be less important.
//
// Threads: any. No lock is held while a thread waits for the device or calls `on_end`.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "device/device_order.h"
#include "io/drive_io.h"

namespace teraio::io {

class CopyWatcher {
 public:
  struct End {
    uint64_t tag = 0;
    Status status;  // not ok: the bytes are undefined
  };

  // `device` and what `on_end` uses must outlive the result. `on_end` is called when take() has
  // something and had nothing before: ends that come until it is called need no call of their own,
  // which wakes a thread. Fails if the system refuses a thread.
  static Result<std::unique_ptr<CopyWatcher>> create(device::DeviceOrder& device,
                                                     std::function<void()> on_end);
  // Waits for the copies that have begun.
  ~CopyWatcher();
  CopyWatcher(const CopyWatcher&) = delete;
  CopyWatcher& operator=(const CopyWatcher&) = delete;

  // `end` is what the call that began the copy has returned. A failure is an end, too.
  void watch(Direction direction, uint64_t tag, const Result<device::Event>& end);
  // Returns the ends that have come since the last call. Does not wait.
  std::vector<End> take();

 private:
  struct Copy {
    uint64_t tag = 0;
    device::Event end;
  };
  struct Lane {
    std::deque<Copy> copies;
    std::condition_variable changed;
    std::thread thread;
  };

  CopyWatcher(device::DeviceOrder& device, std::function<void()> on_end)
      : device_(device), on_end_(std::move(on_end)) {}
  // A thread's function.
  void wait_for_copies(Lane& lane);
  void add(End end);

  device::DeviceOrder& device_;
  const std::function<void()> on_end_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;  // by direction
  std::vector<End> ends_;
  bool is_stopping_ = false;
};

}  // namespace teraio::io
