// CudaOpTimer: op durations from CUDA events. It records one event after every op, and one on each
// side of a wait that compute or the host has to make. Nothing is synchronized before
// durations_ns().
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
  // `stream` gives the stream of compute, on the GPU with this ordinal. Ops end in threads whose
  // current GPU is any.
  CudaOpTimer(int32_t ordinal, std::function<cudaStream_t()> stream)
      : ordinal_(ordinal), stream_(std::move(stream)) {}
  ~CudaOpTimer() override;
  CudaOpTimer(const CudaOpTimer&) = delete;
  CudaOpTimer& operator=(const CudaOpTimer&) = delete;

  void start() override;
  void end_op() override { mark(Mark::kOpEnd); }
  // Before and after a call that makes compute wait, too.
  void begin_pause() override { mark(Mark::kPauseBegin); }
  void leave_out() override { mark(Mark::kPauseEnd); }
  Result<std::vector<int64_t>> durations_ns() override;

 private:
  enum class Mark : uint8_t { kStart, kOpEnd, kPauseBegin, kPauseEnd };

  // Has no effect before start() or after durations_ns().
  void mark(Mark kind);

  Status make_event();

  const int32_t ordinal_;
  const std::function<cudaStream_t()> stream_;
  std::vector<cudaEvent_t> events_;  // reused from one iteration to the next
  std::vector<Mark> marks_;          // one per event in use
  Status failure_;
  bool is_on_ = false;
};

}  // namespace teraio::device
