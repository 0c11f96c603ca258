// GpuDirectIo: moves chunks directly between drive and device until that fails, then through
// staging.
//
// After the first failure the library is no longer trusted: the failed chunk and all later chunks
// of this drive are staged.
#pragma once

#include <memory>
#include <vector>

#include "io/chunk_io.h"

namespace teraio::io {

class GpuDirectIo final : public ChunkIo {
 public:
  // Every result of `direct` must call staged->wake(), so that one wait covers both.
  GpuDirectIo(std::unique_ptr<ChunkIo> direct, std::unique_ptr<ChunkIo> staged);

  std::string description() const override;
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { staged_->wake(); }

 private:
  void take_direct(std::vector<ChunkResult>& results);

  const std::unique_ptr<ChunkIo> staged_;
  const std::unique_ptr<ChunkIo> direct_;  // destroyed before staged_, which its threads wake
  std::vector<ChunkResult> direct_results_;
  bool is_direct_ = true;
  Status failure_;  // of the direct path
};

}  // namespace teraio::io
