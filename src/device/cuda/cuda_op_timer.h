// Op times from CUDA's events: one is recorded after every op, and one on each side of a wait that
// compute is told; nothing is synchronized before the times are asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "device/op_timer.h"

namespace teraio::device {

class CudaOpTimer final : public OpTimer {
 public:
  explicit CudaOpTimer(std::function<cudaStream_t()> stream) : stream_(std::move(stream)) {}
  ~CudaOpTimer() override;
  CudaOpTimer(const CudaOpTimer&) = delete;
  CudaOpTimer& operator=(const CudaOpTimer&) = delete;

  void start() override;
  void end_op() override { mark(Mark::kOpEnd); }
  void leave_out() override { mark(Mark::kWaitEnd); }
  Result<std::vector<int64_t>> durations_ns() override;

  // Around what makes compute wait. Nothing before start(), nor once the times were asked for.
  void begin_wait() { mark(Mark::kWaitBegin); }
  void end_wait() { mark(Mark::kWaitEnd); }

 private:
  enum class Mark : uint8_t { kStart, kOpEnd, kWaitBegin, kWaitEnd };

  void mark(Mark kind);

  const std::function<cudaStream_t()> stream_;
  std::vector<cudaEvent_t> events_;  // kept from iteration to iteration
  std::vector<Mark> marks_;          // one for each event that is in use
  Status failure_;
  bool is_on_ = false;
};

}  // namespace teraio::device
