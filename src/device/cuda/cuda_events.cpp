#include "device/cuda/cuda_events.h"

#include "device/cuda/cuda_status.h"
#include "device/cuda/outside_of_capture.h"

namespace teraio::device {

CudaEvents::~CudaEvents() {
  for (const Lane& lane : lanes_) {
    for (const auto& [id, recorded] : lane.recorded) cudaEventDestroy(recorded.handle);
    for (const cudaEvent_t handle : lane.unused) cudaEventDestroy(handle);
  }
}

Result<cudaEvent_t> CudaEvents::take_handle(Lane& lane) {
  if (lane.unused.empty()) reuse_passed(lane);
  if (!lane.unused.empty()) {
    const cudaEvent_t handle = lane.unused.back();
    lane.unused.pop_back();
    return handle;
  }
  cudaEvent_t handle = nullptr;
  // Waiting threads sleep instead of spinning, because there is one per drive and direction.
  const unsigned int flags = cudaEventDisableTiming | cudaEventBlockingSync;
  TERAIO_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&handle, flags), "create an event"));
  return handle;
}

Result<Event> CudaEvents::record(cudaStream_t stream, EventLane lane_number) {
  const OutsideOfCapture harmless;
  Lane& lane = lanes_[lane_number];
  const std::lock_guard lock(lane.mutex);
  const Result<cudaEvent_t> handle = take_handle(lane);
  if (!handle.ok()) return handle.status();
  if (Status status = cuda_status(cudaEventRecord(*handle, stream), "record an event");
      !status.ok()) {
    lane.unused.push_back(*handle);
    return status;
  }
  const Event event{++lane.last_number * kEventLanes + lane_number};
  lane.recorded[event.id] = {*handle, 0};
  return event;
}

Status CudaEvents::make_wait(cudaStream_t stream, Event event) {
  Lane& lane = lane_of(event);
  const std::lock_guard lock(lane.mutex);
  const auto found = lane.recorded.find(event.id);
  if (found == lane.recorded.end()) return {};
  return cuda_status(cudaStreamWaitEvent(stream, found->second.handle, 0), "wait on a stream");
}

bool CudaEvents::has_passed(Event event) {
  const OutsideOfCapture harmless;
  Lane& lane = lane_of(event);
  const std::lock_guard lock(lane.mutex);
  const auto found = lane.recorded.find(event.id);
  if (found == lane.recorded.end()) return true;
  if (!has_passed(found->second)) return false;
  if (found->second.waiting_threads == 0) reuse(lane, found);
  return true;
}

Status CudaEvents::wait(Event event) {
  const OutsideOfCapture harmless;
  Lane& lane = lane_of(event);
  cudaEvent_t handle = nullptr;
  {
    const std::lock_guard lock(lane.mutex);
    const auto found = lane.recorded.find(event.id);
    if (found == lane.recorded.end()) return {};
    ++found->second.waiting_threads;
    handle = found->second.handle;
  }
  const Status status = cuda_status(cudaEventSynchronize(handle), "wait for an event");
  const std::lock_guard lock(lane.mutex);
  const auto found = lane.recorded.find(event.id);
  if (--found->second.waiting_threads > 0 || !status.ok()) return status;
  reuse(lane, found);
  return status;
}

bool CudaEvents::has_passed(const Recorded& recorded) {
  return has_succeeded(cudaEventQuery(recorded.handle));  // or else cudaErrorNotReady
}

CudaEvents::ById::iterator CudaEvents::reuse(Lane& lane, ById::iterator recorded) {
  lane.unused.push_back(recorded->second.handle);
  return lane.recorded.erase(recorded);
}

// The last thread that waits for an event reuses it.
void CudaEvents::reuse_passed(Lane& lane) {
  for (auto oldest = lane.recorded.begin(); oldest != lane.recorded.end();) {
    if (oldest->second.waiting_threads > 0)
      ++oldest;
    else if (has_passed(oldest->second))
      oldest = reuse(lane, oldest);
    else
      return;
  }
}

}  // namespace teraio::device
