// RetryingIo: transfers over a DriveIo that either complete or fail.
//
// It resumes short transfers, repeats interrupted ones, repeats after growing pauses what failed
// for a reason that may pass (EAGAIN, ENOMEM, ECANCELED where io_uring got no thread, and
// ENOSPC of a write, whose room was preallocated: file systems need room for their metadata, and
// thin pools grow), turns errors into text that names the drive, the offset and the cause, and
// computes a checksum of every chunk on request. A write sets the checksum, a read compares it and
// returns kCorrupted if it differs. Threads: as ChunkIo.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "io/chunk_io.h"
#include "io/drive_io.h"

namespace teraio::io {

// A transfer that fails for a reason that may pass is repeated at once, and then this number of
// times after pauses of 1 ms, 2 ms, 4 ms, ..., which are about a second in all. The drive's other
// transfers wait meanwhile. Once a write has failed with ENOSPC after all pauses, the next ones are
// repeated at once only, until a write succeeds.
inline constexpr int32_t kPausesMax = 10;

class RetryingIo final : public ChunkIo {
 public:
  // `clock` measures the pauses, and must outlive the result.
  RetryingIo(std::unique_ptr<DriveIo> io, std::string drive_name, int32_t in_flight_max,
             const Clock& clock);

  std::string description() const override { return std::string(io_->description()); }
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { io_->wake(); }

 private:
  struct Slot {
    Chunk chunk;
    int64_t done_bytes = 0;   // a multiple of kBlockBytes
    int32_t retry_count = 0;  // without progress
    int32_t passing_error_count = 0;
  };

  enum class Next : uint8_t { kEnd, kRepeat, kRepeatLater };

  void submit_rest(uint64_t tag);
  // Returns ok and sets `next` if the slot needs another request.
  Status settle(Slot& slot, int64_t result, Next& next);
  Status settle_passing_error(Slot& slot, int64_t error_number, Next& next);
  // Repeats the transfers of paused_ after the longest of their pauses.
  void repeat_paused();
  Status check_bytes(const Chunk& chunk) const;
  Status error(const Slot& slot, int64_t error_number) const;
  Status device_error(const Slot& slot, const Status& failure) const;
  std::string describe(const Slot& slot) const;
  std::vector<std::string> details(const Slot& slot, int64_t error_number) const;

  std::unique_ptr<DriveIo> io_;
  std::string drive_name_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_slots_;
  std::vector<uint64_t> paused_;  // tags
  bool is_full_ = false;  // a write has waited for room in vain, and none has succeeded since
  const Clock& clock_;
  std::vector<IoResult> io_results_;
};

}  // namespace teraio::io
