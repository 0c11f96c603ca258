#include "device/cuda/cuda_events.h"

#include "device/cuda/cuda_status.h"
#include "device/cuda/outside_of_capture.h"

namespace teraio::device {

CudaEvents::~CudaEvents() {
  for (const auto& [id, recorded] : recorded_) cudaEventDestroy(recorded.handle);
  for (const cudaEvent_t handle : unused_) cudaEventDestroy(handle);
}

Result<cudaEvent_t> CudaEvents::take_handle() {
  if (!unused_.empty()) {
    const cudaEvent_t handle = unused_.back();
    unused_.pop_back();
    return handle;
  }
  cudaEvent_t handle = nullptr;
  // Waiting threads sleep instead of spinning, because there is one per drive and direction.
  const unsigned int flags = cudaEventDisableTiming | cudaEventBlockingSync;
  TERAIO_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&handle, flags), "create an event"));
  return handle;
}

Result<Event> CudaEvents::record(cudaStream_t stream, EventQueue queue) {
  const OutsideOfCapture harmless;
  const std::lock_guard lock(mutex_);
  reuse_passed();
  const Result<cudaEvent_t> handle = take_handle();
  if (!handle.ok()) return handle.status();
  if (Status status = cuda_status(cudaEventRecord(*handle, stream), "record an event");
      !status.ok()) {
    unused_.push_back(*handle);
    return status;
  }
  const Event event{++last_id_};
  recorded_[event.id] = {*handle, 0};
  queues_[static_cast<size_t>(queue)].push_back(event.id);
  return event;
}

Status CudaEvents::make_wait(cudaStream_t stream, Event event) {
  const std::lock_guard lock(mutex_);
  const auto found = recorded_.find(event.id);
  if (found == recorded_.end()) return {};
  return cuda_status(cudaStreamWaitEvent(stream, found->second.handle, 0), "wait on a stream");
}

bool CudaEvents::has_passed(Event event) {
  const OutsideOfCapture harmless;
  const std::lock_guard lock(mutex_);
  return reuse_if_passed(event.id);
}

Status CudaEvents::wait(Event event) {
  const OutsideOfCapture harmless;
  cudaEvent_t handle = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = recorded_.find(event.id);
    if (found == recorded_.end()) return {};
    ++found->second.waiting_threads;
    handle = found->second.handle;
  }
  const Status status = cuda_status(cudaEventSynchronize(handle), "wait for an event");
  const std::lock_guard lock(mutex_);
  --recorded_.at(event.id).waiting_threads;
  if (status.ok()) reuse_if_passed(event.id);
  return status;
}

void CudaEvents::reuse_passed() {
  for (std::deque<uint64_t>& queue : queues_)
    while (!queue.empty() && reuse_if_passed(queue.front())) queue.pop_front();
}

bool CudaEvents::reuse_if_passed(uint64_t id) {
  const auto found = recorded_.find(id);
  if (found == recorded_.end()) return true;
  if (!has_succeeded(cudaEventQuery(found->second.handle))) return false;  // cudaErrorNotReady
  if (found->second.waiting_threads > 0) return true;  // the last waiting thread reuses it
  unused_.push_back(found->second.handle);
  recorded_.erase(found);
  return true;
}

}  // namespace teraio::device
