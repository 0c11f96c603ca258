#include "device/cuda/cuda_op_timer.h"

#include <cmath>

#include "device/cuda/cuda_status.h"
#include "device/cuda/current_device.h"
#include "device/cuda/outside_of_capture.h"

namespace teraio::device {

CudaOpTimer::~CudaOpTimer() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
}

void CudaOpTimer::start() {
  marks_.clear();
  failure_ = Status();
  is_on_ = true;
  mark(Mark::kStart);
}

void CudaOpTimer::mark(Mark kind) {
  if (!is_on_ || !failure_.ok()) return;
  // Events belong to the GPU that is current when they are made, and the default stream is its.
  const CurrentDevice current(ordinal_);
  if (marks_.size() == events_.size()) failure_ = make_event();
  if (!failure_.ok()) return;
  failure_ = cuda_status(cudaEventRecord(events_[marks_.size()], stream_()), "time an op");
  marks_.push_back(kind);
}

Status CudaOpTimer::make_event() {
  cudaEvent_t event = nullptr;
  TERAIO_RETURN_IF_ERROR(cuda_status(cudaEventCreate(&event), "create an event for an op's time"));
  events_.push_back(event);
  return {};
}

Result<std::vector<int64_t>> CudaOpTimer::durations_ns() {
  const OutsideOfCapture harmless;
  is_on_ = false;
  if (!failure_.ok()) return failure_;
  std::vector<int64_t> durations_ns;
  if (marks_.size() < 2) return durations_ns;
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaEventSynchronize(events_[marks_.size() - 1]), "wait for the last op"));
  double op_ms = 0;
  for (size_t i = 1; i < marks_.size(); ++i) {
    float since_last_ms = 0;
    TERAIO_RETURN_IF_ERROR(cuda_status(
        cudaEventElapsedTime(&since_last_ms, events_[i - 1], events_[i]), "read an op's time"));
    if (marks_[i] != Mark::kPauseEnd) op_ms += static_cast<double>(since_last_ms);
    if (marks_[i] != Mark::kOpEnd) continue;
    durations_ns.push_back(std::llround(op_ms * 1e6));
    op_ms = 0;
  }
  return durations_ns;
}

}  // namespace teraio::device
