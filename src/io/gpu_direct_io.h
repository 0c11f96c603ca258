// GpuDirectIo: chunks straight between drive and device while that works, staged from then on.
//
// A library that has once failed under way is not trusted again: the chunk is repeated through the
// staged way, and so is every later one of this drive.
#pragma once

#include <memory>
#include <vector>

#include "io/chunk_io.h"

namespace teraio::io {

class GpuDirectIo final : public ChunkIo {
 public:
  // Each result of `direct` calls staged->wake(): both are waited for in one place.
  GpuDirectIo(std::unique_ptr<ChunkIo> direct, std::unique_ptr<ChunkIo> staged);

  std::string description() const override;
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { staged_->wake(); }

 private:
  void take_direct(std::vector<ChunkResult>& results);

  const std::unique_ptr<ChunkIo> staged_;
  const std::unique_ptr<ChunkIo> direct_;  // after staged_: its threads wake that
  std::vector<ChunkResult> direct_results_;
  bool is_direct_ = true;
  Status failure_;  // that ended it
};

}  // namespace teraio::io
