#include "io/gpu_direct_io.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/log.h"

namespace teraio::io {

GpuDirectIo::GpuDirectIo(std::unique_ptr<ChunkIo> direct, std::unique_ptr<ChunkIo> staged)
    : staged_(std::move(staged)), direct_(std::move(direct)) {}

std::string GpuDirectIo::description() const {
  return direct_->description() + " (else " + staged_->description() + ")";
}

void GpuDirectIo::submit(const Chunk& chunk) { (is_direct_ ? direct_ : staged_)->submit(chunk); }

void GpuDirectIo::take_direct(std::vector<ChunkResult>& results) {
  direct_results_.clear();
  direct_->wake();  // so that wait() does not block
  direct_->wait(direct_results_);
  for (ChunkResult& result : direct_results_) {
    result.was_gpu_direct = result.status.ok();
    // Where the device has failed, no other way is better.
    if (result.status.ok() || result.status.code() == ErrorCode::kDeviceFailed) {
      results.push_back(std::move(result));
      continue;
    }
    if (std::exchange(is_direct_, false)) {
      spdlog::warn(
          "{}: GPUDirect Storage is not used for this drive any more: its transfers go through "
          "host memory, which may be slower. `teraio doctor --ssd DIR` checks the drive{}",
          result.status.message(), detail_lines(result.status));
      failure_ = result.status;
    }
    staged_->submit(result.chunk);
  }
}

void GpuDirectIo::wait(std::vector<ChunkResult>& results) {
  take_direct(results);
  if (!results.empty()) return;
  const size_t first = results.size();
  staged_->wait(results);
  for (size_t i = first; i < results.size(); ++i) results[i].gpu_direct_failure = failure_;
  take_direct(results);
}

}  // namespace teraio::io
