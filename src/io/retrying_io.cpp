#include "io/retrying_io.h"

#include <fmt/format.h>
#include <xxhash.h>

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

bool is_passing(int64_t result) { return result == -EAGAIN || result == -EINTR; }

bool means_full(int64_t error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

}  // namespace

RetryingIo::RetryingIo(std::unique_ptr<DriveIo> io, std::string drive_name, int32_t window)
    : io_(std::move(io)), drive_name_(std::move(drive_name)), slots_(static_cast<size_t>(window)) {
  for (uint64_t tag = slots_.size(); tag > 0; --tag) free_slots_.push_back(tag - 1);
}

void RetryingIo::submit(const Chunk& chunk) {
  TERAIO_CHECK(!free_slots_.empty());
  const uint64_t tag = free_slots_.back();
  free_slots_.pop_back();
  slots_[tag] = {chunk, 0, 0};
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
    bool goes_on = false;
    Status status = settle(slot, io_result.result, goes_on);
    if (goes_on) {
      submit_rest(io_result.tag);
      continue;
    }
    results.push_back({slot.chunk, std::move(status), false, Status()});
    free_slots_.push_back(io_result.tag);
  }
}

Status RetryingIo::settle(Slot& slot, int64_t result, bool& goes_on) const {
  if (is_passing(result)) {
    goes_on = ++slot.retry_count < kRetryLimit;
    return goes_on ? Status() : error(slot, -result);
  }
  if (result < 0) return error(slot, -result);
  if (result == 0)
    return Status(ErrorCode::kIoError, fmt::format("{} failed: no byte was moved", describe(slot)));
  // Only whole blocks count, because direct I/O cannot resume within a block.
  const bool is_whole = slot.done_bytes + result >= slot.chunk.size_bytes;
  const int64_t moved_bytes = result / kBlockBytes * kBlockBytes;
  slot.retry_count = moved_bytes > 0 ? 0 : slot.retry_count + 1;
  slot.done_bytes += moved_bytes;
  if (is_whole) return check_bytes(slot.chunk);
  goes_on = slot.retry_count < kRetryLimit;
  return goes_on ? Status() : error(slot, EIO);
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

Status RetryingIo::error(const Slot& slot, int64_t error_number) const {
  const ErrorCode code = means_full(error_number) ? ErrorCode::kOutOfSpace : ErrorCode::kIoError;
  return Status(code, fmt::format("{} failed: {}", describe(slot), io_->error_text(error_number)));
}

}  // namespace teraio::io
