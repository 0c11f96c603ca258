// RetryingIo: transfers over a DriveIo that either complete or fail.
//
// It resumes short transfers, repeats interrupted ones, turns errors into text that names the
// drive, the offset and the cause, and computes a checksum of every chunk on request. A write sets
// the checksum, a read compares it and returns kCorrupted if it differs. Threads: as ChunkIo.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/chunk_io.h"
#include "io/drive_io.h"

namespace teraio::io {

class RetryingIo final : public ChunkIo {
 public:
  RetryingIo(std::unique_ptr<DriveIo> io, std::string drive_name, int32_t window);

  std::string description() const override { return std::string(io_->description()); }
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { io_->wake(); }

 private:
  struct Slot {
    Chunk chunk;
    int64_t done_bytes = 0;  // a multiple of kBlockBytes
    int32_t retry_count = 0;
  };

  void submit_rest(uint64_t tag);
  // Returns ok and sets `goes_on` if the slot needs another request.
  Status settle(Slot& slot, int64_t result, bool& goes_on) const;
  Status check_bytes(const Chunk& chunk) const;
  Status error(const Slot& slot, int64_t error_number) const;
  std::string describe(const Slot& slot) const;

  std::unique_ptr<DriveIo> io_;
  std::string drive_name_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_slots_;
  std::vector<IoResult> io_results_;
};

}  // namespace teraio::io
