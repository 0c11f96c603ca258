#include "device/device_order.h"

#include <spdlog/spdlog.h>

#include <limits>

#include "base/log.h"

namespace teraio::device {
namespace {

// Stands for a point that could not be recorded. Waiting for it fails.
constexpr Event kNoPoint{std::numeric_limits<uint64_t>::max()};

}  // namespace

Event DeviceOrder::record_at(Stream stream) {
  const Result<Event> event = record_point(stream);
  if (event.ok()) return *event;
  note_unrecorded(event.status());
  return kNoPoint;
}

// Told once: when the device has failed, every later event fails in the same way.
void DeviceOrder::note_unrecorded(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!unrecorded_.ok()) return;
    unrecorded_ = status;
  }
  spdlog::error(
      "teraio: {}: a transfer that waits for this event cannot begin, and an op that needs its "
      "tensor fails. End the training, and start it again from a checkpoint{}",
      status.message(), detail_lines(status));
}

Status DeviceOrder::why_unrecorded() const {
  const std::lock_guard lock(mutex_);
  return unrecorded_;
}

bool DeviceOrder::has_passed(Event event) const {
  return event.id == 0 || (event.id != kNoPoint.id && is_past(event));
}

Status DeviceOrder::wait(Event event) {
  if (event.id == 0) return {};
  return event.id == kNoPoint.id ? why_unrecorded() : wait_for(event);
}

Status DeviceOrder::order(Stream stream, Event event) {
  if (event.id == 0) return {};
  return event.id == kNoPoint.id ? why_unrecorded() : make_wait(stream, event);
}

Result<Event> DeviceOrder::copy(const Copy& copy) {
  if (copy.after.id == kNoPoint.id) return why_unrecorded();
  return start_copy(copy);
}

Result<Event> DeviceOrder::copy_to_host(std::byte* host, const std::byte* device,
                                        int64_t size_bytes, Event after) {
  return copy({host, device, size_bytes, true, after});
}

Result<Event> DeviceOrder::copy_from_host(std::byte* device, const std::byte* host,
                                          int64_t size_bytes, Event after) {
  return copy({device, host, size_bytes, false, after});
}

}  // namespace teraio::device
