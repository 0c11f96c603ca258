#include "probe/load_generator.h"

#include <utility>

namespace teraio::probe {
namespace {

size_t index_of(io::Direction direction) { return static_cast<size_t>(direction); }

Status interrupted() { return Status(ErrorCode::kInterrupted, "the measurement was interrupted"); }

}  // namespace

LoadGenerator::~LoadGenerator() {
  for (const auto& half : extents_)
    for (const storage::Extent& extent : half) store_.release(extent);
}

Status LoadGenerator::fill(int64_t tier_bytes, const std::function<void(int64_t)>& on_written) {
  const int64_t count = tier_bytes / transfer_bytes_;
  for (int64_t i = 0; i < count; ++i) {
    const Result<storage::Extent> extent = store_.reserve(transfer_bytes_);
    if (!extent.ok()) return extent.status();
    extents_[i % 2].push_back(*extent);
  }
  std::vector<storage::TransferId> writes;
  for (const auto& half : extents_)
    for (const storage::Extent& extent : half)
      writes.push_back(submit(io::Direction::kWrite, 0, extent));
  Status status;
  for (int64_t i = 0; i < count; ++i) {
    const Status one = wait_for_ending().completion.status;
    if (status.ok()) status = one;
    if (status.ok() && on_written) on_written((i + 1) * transfer_bytes_);
    if (!status.ok() || !stop_.has_come()) continue;
    status = interrupted();
    for (const storage::TransferId write : writes) store_.cancel(write);
  }
  return status;
}

const storage::Extent& LoadGenerator::next_extent(io::Direction direction, int32_t lane) {
  const std::vector<storage::Extent>& half = extents_[index_of(direction)];
  size_t& next = next_[index_of(direction)][static_cast<size_t>(lane)];
  const storage::Extent& extent = half[next];
  next += kLoadTransfersAtOnce;
  if (next >= half.size()) next = static_cast<size_t>(lane);
  return extent;
}

storage::TransferId LoadGenerator::submit(io::Direction direction, int32_t lane,
                                          const storage::Extent& extent,
                                          storage::Priority priority) {
  storage::Transfer transfer;
  transfer.direction = direction;
  transfer.extent = extent;
  transfer.memory = memory_[index_of(direction)][static_cast<size_t>(lane)];
  transfer.priority = priority;
  transfer.done = [this, direction, lane](const storage::Completion& completion) {
    const std::lock_guard lock(mutex_);
    endings_.push_back({direction, lane, completion});
    ended_.notify_one();
  };
  return store_.submit(std::move(transfer));
}

LoadGenerator::Ending LoadGenerator::wait_for_ending() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !endings_.empty(); });
  Ending ending = std::move(endings_.front());
  endings_.pop_front();
  return ending;
}

Status LoadGenerator::keep_busy(bool reads, bool writes,
                                const std::function<bool(const LoadProgress&)>& is_over) {
  const bool is_active[2] = {reads, writes};
  const storage::TierCounters before = store_.counters();
  const int64_t start_ns = clock_.now_ns();
  int32_t under_way = 0;
  for (const io::Direction direction : {io::Direction::kRead, io::Direction::kWrite}) {
    for (int32_t lane = 0; lane < kLoadTransfersAtOnce && is_active[index_of(direction)]; ++lane) {
      submit(direction, lane, next_extent(direction, lane));
      ++under_way;
    }
  }
  bool goes_on = true;
  Status status;
  while (under_way > 0) {
    const Ending ending = wait_for_ending();
    --under_way;
    if (status.ok()) status = ending.completion.status;
    if (status.ok() && stop_.has_come()) status = interrupted();
    // Transfers that still run then do not count, because one direction may run without the other.
    if (!status.ok() || !goes_on) continue;
    const storage::TierCounters now = store_.counters();
    goes_on = !is_over({clock_.now_ns() - start_ns, now.bytes_read - before.bytes_read,
                        now.bytes_written - before.bytes_written});
    if (!goes_on) continue;
    submit(ending.direction, ending.lane, next_extent(ending.direction, ending.lane));
    ++under_way;
  }
  return status;
}

Result<LoadRates> LoadGenerator::run(bool reads, bool writes, int64_t duration_ns) {
  LoadProgress all;
  const Status status = keep_busy(reads, writes, [&](const LoadProgress& progress) {
    all = progress;
    return progress.time_ns >= duration_ns;
  });
  if (!status.ok()) return status;
  const double seconds = static_cast<double>(all.time_ns) * 1e-9;
  return LoadRates{static_cast<double>(all.bytes_read) / seconds,
                   static_cast<double>(all.bytes_written) / seconds};
}

}  // namespace teraio::probe
