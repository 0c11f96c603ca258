// DeviceOrder: the order of work on a device, and copies to and from it.
//
// The public functions answer for points that have always passed and for points that could not be
// recorded; a device implements the protected ones for all others.
//
// Threads: any, except that order_after() needs the engine's lock while ops are timed. No call
// takes Python's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "base/status.h"

namespace teraio::device {

// A point in an order of work on the device. Copyable. The id 0 denotes a point that has passed.
struct Event {
  uint64_t id = 0;
};

class DeviceOrder {
 public:
  virtual ~DeviceOrder() = default;

  // Returns the point that all compute enqueued so far reaches when it is done. On the CPU it has
  // passed. If it cannot be recorded, the first such error is logged, and wait() fails.
  Event record() { return record_at(std::nullopt); }
  // Like record(), but for another order of work: a stream of the framework, such as a
  // cudaStream_t. A device with a single order ignores `stream`.
  Event record_on(void* stream) { return record_at(stream); }

  // False also when that cannot be known because the device has failed: wait() tells.
  bool has_passed(Event event) const;
  // Blocks the calling thread until `event` has passed. kDeviceFailed: it never will.
  Status wait(Event event);
  // Makes compute that is enqueued from now on wait for `event`, the end of a copy. Does not block
  // the caller.
  Status order_after(Event event) { return order(std::nullopt, event); }
  // The same for work on a stream of the framework, as for record_on().
  Status order_stream_after(void* stream, Event event) { return order(stream, event); }

  // Starts a copy on one of the device's own copy streams, after `after` has passed. Both buffers
  // must stay valid until the returned event has passed. If compute writes to the source before
  // that, the contents of the target are undefined. On the CPU the copy is complete on return.
  Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                             Event after);
  Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                               Event after);

  // Moves bytes on the device, as compute that is enqueued now. The buffers may overlap if `to` is
  // the lower one.
  virtual Status move_within(std::byte* to, const std::byte* from, int64_t size_bytes) = 0;

  // Sets all bytes to `value`, as compute that is enqueued now. A device without bytes ignores it.
  virtual Status fill(std::byte* memory, int64_t size_bytes, int value) = 0;

  // Calls with the device as the calling thread's current one, as other libraries want it, and
  // leaves that as it was.
  virtual void call_on_device(const std::function<void()>& call) { call(); }

 protected:
  // The handle of a stream of the framework; empty: the stream of compute.
  using Stream = std::optional<void*>;

  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t size_bytes = 0;
    bool is_to_host = false;
    Event after;
  };

  virtual Result<Event> record_point(Stream stream) = 0;
  virtual bool is_past(Event event) const = 0;
  virtual Status wait_for(Event event) = 0;
  virtual Status make_wait(Stream stream, Event event) = 0;
  virtual Result<Event> start_copy(const Copy& copy) = 0;

 private:
  Event record_at(Stream stream);
  Status order(Stream stream, Event event);
  Result<Event> copy(const Copy& copy);
  void note_unrecorded(const Status& status);
  Status why_unrecorded() const;

  mutable std::mutex mutex_;
  Status unrecorded_;  // of the first point that could not be recorded
};

}  // namespace teraio::device
