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
constexpr int32_t kUrgentLane = -1;

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

size_t index_of(Direction direction) { return static_cast<size_t>(direction); }

}  // namespace

// Touched here, so that no page fault is measured later.
DriveLoad::Buffer DriveLoad::make_buffer() {
  Buffer buffer{static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kTransferBytes)),
                &std::free};
  std::memset(buffer.get(), 1, kTransferBytes);
  return buffer;
}

DriveLoad::DriveLoad(int64_t request_bytes)
    : request_bytes_(std::min(request_bytes, kTransferBytes)), noise_(make_buffer()) {
  std::mt19937_64 random(20260101);
  auto* words = reinterpret_cast<uint64_t*>(noise_.get());
  std::generate(words, words + kTransferBytes / 8, random);
  for (int32_t i = 0; i < kTransfersAtOnce; ++i) targets_.push_back(make_buffer());
}

DriveLoad::~DriveLoad() = default;

Result<std::unique_ptr<DriveLoad>> DriveLoad::open(const std::vector<SsdDirectory>& directories,
                                                   int64_t file_bytes, SsdStoreOptions options) {
  std::unique_ptr<DriveLoad> load(new DriveLoad(options.request_bytes));
  const int64_t least_bytes = 2 * kTransfersAtOnce * kTransferBytes;
  const int64_t size_bytes = align_up(std::max(file_bytes, least_bytes), kTransferBytes);
  options.capacity_bytes = size_bytes + kBlockBytes + load->request_bytes_;
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
  const Result<Extent> request = store_->reserve(request_bytes_);
  if (!request) return request.status();
  request_ = *request;
  return Status();
}

const Extent& DriveLoad::next_extent(Direction direction) {
  const size_t which = index_of(direction);
  return extents_[which][next_[which]++ % extents_[which].size()];
}

void DriveLoad::submit(Direction direction, int32_t lane, const Extent& extent, Priority priority) {
  Transfer transfer;
  transfer.direction = direction;
  transfer.extent = extent;
  transfer.memory =
      direction == Direction::kRead ? targets_[std::max(lane, 0)].get() : noise_.get();
  transfer.priority = priority;
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
  submit(Direction::kWrite, 0, request_);
  for (const auto& half : extents_) {
    for (const Extent& extent : half) submit(Direction::kWrite, 0, extent);
  }
  Status status;
  for (size_t i = 0; i < 2 + extents_[0].size() + extents_[1].size(); ++i) {
    const Status one = wait_for_ending().completion.status;
    if (status.ok()) status = one;
  }
  return status;
}

Status DriveLoad::keep_busy(bool reads, bool writes,
                            const std::function<bool(const LoadProgress&)>& is_over) {
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
  bool goes_on = true;
  Status status;
  while (under_way > 0) {
    const Ending ending = wait_for_ending();
    --under_way;
    if (status.ok()) status = ending.completion.status;
    // What still runs then is not counted: at the end one direction runs without the other.
    if (!status.ok() || !goes_on) continue;
    const TierCounters now = store_->counters();
    goes_on = !is_over({clock_.now_ns() - start_ns, now.bytes_read - before.bytes_read,
                        now.bytes_written - before.bytes_written});
    if (!goes_on) continue;
    submit(ending.direction, ending.lane, next_extent(ending.direction));
    ++under_way;
  }
  return status;
}

Result<LoadRates> DriveLoad::run(bool reads, bool writes, int64_t duration_ns) {
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

Result<SustainedRate> DriveLoad::run_until_settled(bool reads, bool writes,
                                                   const SustainedRateOptions& options) {
  SustainedRate rate(options);
  const Status status = keep_busy(reads, writes, [&](const LoadProgress& progress) {
    rate.add(progress);
    return rate.is_over();
  });
  if (!status.ok()) return status;
  return rate;
}

Result<int64_t> DriveLoad::idle_ns(Direction direction, const Extent& extent, Priority priority) {
  std::vector<int64_t> durations_ns;
  for (int32_t i = 0; i < kLatencySamples; ++i) {
    submit(direction, 0, extent, priority);
    const Completion completion = wait_for_ending().completion;
    if (!completion.status.ok()) return completion.status;
    durations_ns.push_back(completion.end_ns - completion.submit_ns);
  }
  return median(std::move(durations_ns));
}

Result<int64_t> DriveLoad::read_latency_ns() {
  return idle_ns(Direction::kRead, small_, Priority::kPlanned);
}

// As long as samples are missing, every write that ends is followed by another, and every read too.
Result<int64_t> DriveLoad::urgent_read_behind_writes_ns() {
  for (int32_t lane = 0; lane < kTransfersAtOnce; ++lane) {
    submit(Direction::kWrite, lane, next_extent(Direction::kWrite));
  }
  int32_t under_way = kTransfersAtOnce;
  bool is_reading = false;
  std::vector<int64_t> durations_ns;
  Status status;
  while (under_way > 0) {
    const Ending ending = wait_for_ending();
    --under_way;
    if (status.ok()) status = ending.completion.status;
    if (ending.direction == Direction::kRead) {
      durations_ns.push_back(ending.completion.end_ns - ending.completion.submit_ns);
      is_reading = false;
    }
    if (!status.ok() || durations_ns.size() >= kLatencySamples) continue;
    if (ending.direction == Direction::kWrite) {
      submit(Direction::kWrite, ending.lane, next_extent(Direction::kWrite));
      ++under_way;
    }
    if (is_reading) continue;
    submit(Direction::kRead, kUrgentLane, request_, Priority::kUrgent);
    is_reading = true;
    ++under_way;
  }
  if (!status.ok()) return status;
  return median(std::move(durations_ns));
}

Result<UrgentLatency> DriveLoad::urgent_latency() {
  const auto write_ns = idle_ns(Direction::kWrite, request_, Priority::kPlanned);
  if (!write_ns) return write_ns.status();
  const auto idle = idle_ns(Direction::kRead, request_, Priority::kUrgent);
  if (!idle) return idle.status();
  const auto busy = urgent_read_behind_writes_ns();
  if (!busy) return busy.status();
  return UrgentLatency{*idle, *busy, *write_ns};
}

int64_t DriveLoad::buffer_bytes() const {
  return static_cast<int64_t>(1 + targets_.size()) * kTransferBytes;
}

}  // namespace teraio
