#include "storage/drive_load.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/units.h"
#include "storage/drive_io.h"

namespace teraio {
namespace {

constexpr int64_t kTransferBytes = 16 * kMiB;  // as large as many tensors are
constexpr int32_t kTransfersAtOnce = 3;        // per direction: the drive never waits for us
constexpr int32_t kLatencySamples = 64;

size_t index_of(Direction direction) { return static_cast<size_t>(direction); }

}  // namespace

// Touched here, so that no page fault is measured later.
DriveLoad::Buffer DriveLoad::make_buffer() {
  Buffer buffer{static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kTransferBytes)),
                &std::free};
  std::memset(buffer.get(), 1, kTransferBytes);
  return buffer;
}

DriveLoad::DriveLoad() : noise_(make_buffer()) {
  std::mt19937_64 random(20260101);
  auto* words = reinterpret_cast<uint64_t*>(noise_.get());
  std::generate(words, words + kTransferBytes / 8, random);
  for (int32_t i = 0; i < kTransfersAtOnce; ++i) targets_.push_back(make_buffer());
}

DriveLoad::~DriveLoad() = default;

Result<std::unique_ptr<DriveLoad>> DriveLoad::open(const std::vector<SsdDirectory>& directories,
                                                   int64_t file_bytes, SsdStoreOptions options) {
  std::unique_ptr<DriveLoad> load(new DriveLoad());
  const int64_t least_bytes = 2 * kTransfersAtOnce * kTransferBytes;
  const int64_t size_bytes = align_up(std::max(file_bytes, least_bytes), kTransferBytes);
  options.capacity_bytes = size_bytes + kBlockBytes;
  auto store = open_ssd_store(directories, options, load->clock_);
  if (!store) return store.status();
  load->store_ = std::move(*store);
  TERAIO_RETURN_IF_ERROR(load->reserve(size_bytes));
  TERAIO_RETURN_IF_ERROR(load->fill());
  return load;
}

Status DriveLoad::reserve(int64_t file_bytes) {
  for (int64_t i = 0; i < file_bytes / kTransferBytes; ++i) {
    const Result<Extent> extent = store_->reserve(kTransferBytes);
    if (!extent) return extent.status();
    extents_[i % 2].push_back(*extent);
  }
  const Result<Extent> small = store_->reserve(kBlockBytes);
  if (!small) return small.status();
  small_ = *small;
  return Status();
}

const Extent& DriveLoad::next_extent(Direction direction) {
  const size_t which = index_of(direction);
  return extents_[which][next_[which]++ % extents_[which].size()];
}

void DriveLoad::submit(Direction direction, int32_t lane, const Extent& extent) {
  Transfer transfer;
  transfer.direction = direction;
  transfer.extent = extent;
  transfer.memory = direction == Direction::kRead ? targets_[lane].get() : noise_.get();
  transfer.done = [this, direction, lane](const Completion& completion) {
    const std::lock_guard lock(mutex_);
    endings_.push_back({direction, lane, completion});
    ended_.notify_one();
  };
  store_->submit(std::move(transfer));
}

DriveLoad::Ending DriveLoad::wait_for_ending() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !endings_.empty(); });
  Ending ending = std::move(endings_.front());
  endings_.pop_front();
  return ending;
}

Status DriveLoad::fill() {
  submit(Direction::kWrite, 0, small_);
  for (const auto& half : extents_) {
    for (const Extent& extent : half) submit(Direction::kWrite, 0, extent);
  }
  Status status;
  for (size_t i = 0; i < 1 + extents_[0].size() + extents_[1].size(); ++i) {
    const Status one = wait_for_ending().completion.status;
    if (status.ok()) status = one;
  }
  return status;
}

Result<LoadRates> DriveLoad::run(bool reads, bool writes, int64_t duration_ns) {
  const bool is_active[2] = {reads, writes};
  const TierCounters before = store_->counters();
  const int64_t start_ns = clock_.now_ns();
  int32_t under_way = 0;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    for (int32_t lane = 0; lane < kTransfersAtOnce && is_active[index_of(direction)]; ++lane) {
      submit(direction, lane, next_extent(direction));
      ++under_way;
    }
  }
  TierCounters after = before;
  int64_t end_ns = start_ns;
  Status status;
  while (under_way > 0) {
    const Ending ending = wait_for_ending();
    --under_way;
    if (status.ok()) status = ending.completion.status;
    // What still runs then is not counted: at the end one direction runs without the other.
    if (!status.ok() || end_ns - start_ns >= duration_ns) continue;
    end_ns = clock_.now_ns();
    after = store_->counters();
    submit(ending.direction, ending.lane, next_extent(ending.direction));
    ++under_way;
  }
  if (!status.ok()) return status;
  const double seconds = static_cast<double>(end_ns - start_ns) * 1e-9;
  return LoadRates{static_cast<double>(after.bytes_read - before.bytes_read) / seconds,
                   static_cast<double>(after.bytes_written - before.bytes_written) / seconds};
}

Result<int64_t> DriveLoad::read_latency_ns() {
  std::vector<int64_t> durations_ns;
  for (int32_t i = 0; i < kLatencySamples; ++i) {
    submit(Direction::kRead, 0, small_);
    const Completion completion = wait_for_ending().completion;
    if (!completion.status.ok()) return completion.status;
    durations_ns.push_back(completion.end_ns - completion.start_ns);
  }
  const auto middle = durations_ns.begin() + kLatencySamples / 2;
  std::nth_element(durations_ns.begin(), middle, durations_ns.end());
  return *middle;
}

}  // namespace teraio
