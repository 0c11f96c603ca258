#include "io/retrying_io.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace teraio::io {
namespace {

// A transfer fails after this many interruptions in a row without progress.
constexpr int32_t kRetryLimit = 100;

uint64_t checksum_of(const Chunk& chunk) {
  const uint64_t sum = XXH3_64bits(chunk.memory, static_cast<size_t>(chunk.size_bytes));
  return sum == kNoChecksum ? 1 : sum;
}

bool may_pass(int64_t error_number, Direction direction) {
  return error_number == EAGAIN || error_number == ENOMEM || error_number == ECANCELED ||
         (error_number == ENOSPC && direction == Direction::kWrite);
}

int64_t pause_ns(int32_t error_count) {
  return error_count < 2 ? 0 : int64_t{1'000'000} << (error_count - 2);
}

bool means_full(int64_t error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

}  // namespace

RetryingIo::RetryingIo(std::unique_ptr<DriveIo> io, std::string drive_name, int32_t in_flight_max,
                       const Clock& clock)
    : io_(std::move(io)),
      drive_name_(std::move(drive_name)),
      slots_(static_cast<size_t>(in_flight_max)),
      clock_(clock) {
  for (uint64_t tag = slots_.size(); tag > 0; --tag) free_slots_.push_back(tag - 1);
}

void RetryingIo::submit(const Chunk& chunk) {
  TERAIO_CHECK(!free_slots_.empty());
  const uint64_t tag = free_slots_.back();
  free_slots_.pop_back();
  slots_[tag] = {.chunk = chunk};
  if (chunk.checksum != nullptr && chunk.direction == Direction::kWrite)
    *chunk.checksum = checksum_of(chunk);
  submit_rest(tag);
  slots_[tag].chunk.arrival = nullptr;
}

void RetryingIo::submit_rest(uint64_t tag) {
  const Slot& slot = slots_[tag];
  const Chunk& chunk = slot.chunk;
  const int64_t size_bytes = align_up(chunk.size_bytes, kBlockBytes) - slot.done_bytes;
  io_->submit({chunk.direction, chunk.memory + slot.done_bytes,
               chunk.offset_bytes + slot.done_bytes, size_bytes, tag, chunk.after, chunk.arrival});
}

void RetryingIo::wait(std::vector<ChunkResult>& results) {
  io_results_.clear();
  io_->wait(io_results_);
  for (const IoResult& io_result : io_results_) {
    Slot& slot = slots_[io_result.tag];
    Next next = Next::kEnd;
    Status status = io_result.failure.ok() ? settle(slot, io_result.result, next)
                                           : device_error(slot, io_result.failure);
    if (next == Next::kRepeat) {
      submit_rest(io_result.tag);
    } else if (next == Next::kRepeatLater) {
      paused_.push_back(io_result.tag);
    } else {
      results.push_back({slot.chunk, std::move(status), false, Status()});
      free_slots_.push_back(io_result.tag);
    }
  }
  repeat_paused();
}

void RetryingIo::repeat_paused() {
  int64_t longest_ns = 0;
  for (const uint64_t tag : paused_)
    longest_ns = std::max(longest_ns, pause_ns(slots_[tag].passing_error_count));
  if (longest_ns > 0) clock_.sleep(longest_ns);
  for (const uint64_t tag : paused_) submit_rest(tag);
  paused_.clear();
}

Status RetryingIo::settle_passing_error(Slot& slot, int64_t error_number, Next& next) {
  const bool lacks_room = means_full(error_number);
  if (slot.passing_error_count > (lacks_room && is_full_ ? 0 : kPausesMax)) {
    is_full_ = is_full_ || lacks_room;
    return error(slot, error_number);
  }
  ++slot.passing_error_count;
  next = Next::kRepeatLater;
  return {};
}

Status RetryingIo::settle(Slot& slot, int64_t result, Next& next) {
  const bool may_repeat = slot.retry_count + 1 < kRetryLimit;
  if (result == -EINTR && may_repeat) {
    ++slot.retry_count;
    next = Next::kRepeat;
    return {};
  }
  if (may_pass(-result, slot.chunk.direction)) return settle_passing_error(slot, -result, next);
  if (result < 0) return error(slot, -result);
  if (result == 0)
    return Status(ErrorCode::kIoError, fmt::format("{} failed: no byte was moved", describe(slot)));
  // Only whole blocks count, because direct I/O cannot resume within a block.
  const bool is_whole = slot.done_bytes + result >= slot.chunk.size_bytes;
  const int64_t moved_bytes = result / kBlockBytes * kBlockBytes;
  slot.retry_count = moved_bytes > 0 ? 0 : slot.retry_count + 1;
  slot.done_bytes += moved_bytes;
  if (moved_bytes > 0) {
    slot.passing_error_count = 0;
    if (slot.chunk.direction == Direction::kWrite) is_full_ = false;
  }
  if (is_whole) return check_bytes(slot.chunk);
  if (slot.retry_count >= kRetryLimit) return error(slot, EIO);
  next = Next::kRepeat;
  return {};
}

Status RetryingIo::check_bytes(const Chunk& chunk) const {
  if (chunk.checksum == nullptr || chunk.direction == Direction::kWrite) return Status();
  const uint64_t found = checksum_of(chunk);
  if (found == *chunk.checksum) return Status();
  return Status(
      ErrorCode::kCorrupted,
      fmt::format("drive {}: {} bytes at offset {} came back different from what was "
                  "written (checksum {:016x}, expected {:016x})",
                  drive_name_, chunk.size_bytes, chunk.offset_bytes, found, *chunk.checksum));
}

std::string RetryingIo::describe(const Slot& slot) const {
  return fmt::format("drive {}: {} of {} bytes at offset {}", drive_name_,
                     slot.chunk.direction == Direction::kRead ? "read" : "write",
                     slot.chunk.size_bytes - slot.done_bytes,
                     slot.chunk.offset_bytes + slot.done_bytes);
}

std::vector<std::string> RetryingIo::details(const Slot& slot, int64_t error_number) const {
  return {
      fmt::format("error: {} by {}", errno_name(static_cast<int>(error_number)),
                  io_->description()),
      fmt::format("request: {} bytes at offset {} of the drive's file, {} moved before; repeated "
                  "after {} errors that may pass and {} interruptions",
                  slot.chunk.size_bytes, slot.chunk.offset_bytes, slot.done_bytes,
                  slot.passing_error_count, slot.retry_count)};
}

Status RetryingIo::error(const Slot& slot, int64_t error_number) const {
  const ErrorCode code = means_full(error_number) ? ErrorCode::kOutOfSpace : ErrorCode::kIoError;
  return Status(code, fmt::format("{} failed: {}", describe(slot), io_->error_text(error_number)))
      .with_details(details(slot, error_number));
}

Status RetryingIo::device_error(const Slot& slot, const Status& failure) const {
  return failure.with_context(describe(slot) + " failed");
}

}  // namespace teraio::io
