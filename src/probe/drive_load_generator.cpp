#include "probe/drive_load_generator.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::probe {
namespace {

constexpr int64_t kTransferBytes = 16 * kMiB;  // as large as many tensors
constexpr int32_t kLatencySamples = 64;
constexpr int32_t kUrgentLane = 0;  // a lane of reads, free during this measurement

// Returns the size of transfers for a file of this size: whole requests, and small enough for the
// transfers of both directions.
int64_t transfer_bytes_for(int64_t file_bytes, int64_t request_bytes) {
  const int64_t largest_bytes =
      std::min(file_bytes / LoadGenerator::least_bytes(1), kTransferBytes);
  return std::max<int64_t>(largest_bytes / request_bytes, 1) * request_bytes;
}

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// Touches the memory, so that no later measurement includes a page fault.
DriveLoadGenerator::Buffer DriveLoadGenerator::make_buffer() {
  Buffer buffer{static_cast<std::byte*>(std::aligned_alloc(io::kBlockBytes, kTransferBytes)),
                &std::free};
  std::memset(buffer.get(), 1, kTransferBytes);
  return buffer;
}

DriveLoadGenerator::DriveLoadGenerator(int64_t request_bytes)
    : request_bytes_(std::min(request_bytes, kTransferBytes)), noise_(make_buffer()) {
  std::mt19937_64 random(20260101);
  auto* words = reinterpret_cast<uint64_t*>(noise_.get());
  std::generate(words, words + kTransferBytes / 8, random);
  for (int32_t i = 0; i < kLoadTransfersAtOnce; ++i) targets_.push_back(make_buffer());
}

DriveLoadGenerator::~DriveLoadGenerator() = default;

LoadMemory DriveLoadGenerator::memory() const {
  LoadMemory memory;
  for (const Buffer& target : targets_) {
    memory[static_cast<size_t>(io::Direction::kRead)].push_back(target.get());
    memory[static_cast<size_t>(io::Direction::kWrite)].push_back(noise_.get());
  }
  return memory;
}

Result<std::unique_ptr<DriveLoadGenerator>> DriveLoadGenerator::open(
    const std::vector<storage::SsdDirectory>& directories, int64_t file_bytes,
    storage::SsdStoreOptions options, StopRequest stop,
    const std::function<void(int64_t)>& on_written) {
  std::unique_ptr<DriveLoadGenerator> load(new DriveLoadGenerator(options.request_bytes));
  const int64_t transfer_bytes = transfer_bytes_for(file_bytes, load->request_bytes_);
  const int64_t size_bytes = std::max(file_bytes / transfer_bytes * transfer_bytes,
                                      LoadGenerator::least_bytes(transfer_bytes));
  options.capacity_bytes = size_bytes + io::kBlockBytes + load->request_bytes_;
  auto store = open_ssd_store(directories, options, load->clock_);
  if (!store.ok()) return store.status();
  load->store_ = std::move(*store);
  load->load_ = std::make_unique<LoadGenerator>(*load->store_, transfer_bytes, load->memory(),
                                                std::move(stop));
  TERAIO_RETURN_IF_ERROR(load->load_->fill(size_bytes, on_written));
  const Result<storage::Extent> small = load->reserve(io::kBlockBytes);
  if (!small.ok()) return small.status();
  const Result<storage::Extent> request = load->reserve(load->request_bytes_);
  if (!request.ok()) return request.status();
  load->small_ = *small;
  load->request_ = *request;
  return load;
}

Result<storage::Extent> DriveLoadGenerator::reserve(int64_t size_bytes) {
  const Result<storage::Extent> extent = store_->reserve(size_bytes);
  if (!extent.ok()) return extent;
  load_->submit(io::Direction::kWrite, 0, *extent);
  const Status status = load_->wait_for_ending().completion.status;
  if (!status.ok()) return status;
  return extent;
}

Result<SustainedRate> DriveLoadGenerator::run_until_settled(
    bool reads, bool writes, const SustainedRateOptions& options,
    const std::function<void(const LoadProgress&)>& on_progress) {
  SustainedRate rate(reads, writes, options);
  const Status status = load_->keep_busy(reads, writes, [&](const LoadProgress& progress) {
    rate.add(progress);
    if (on_progress) on_progress(progress);
    return rate.is_over();
  });
  if (!status.ok()) return status;
  return rate;
}

Result<int64_t> DriveLoadGenerator::idle_ns(io::Direction direction, const storage::Extent& extent,
                                            storage::Priority priority) {
  std::vector<int64_t> durations_ns;
  for (int32_t i = 0; i < kLatencySamples; ++i) {
    load_->submit(direction, 0, extent, priority);
    const storage::Completion completion = load_->wait_for_ending().completion;
    if (!completion.status.ok()) return completion.status;
    durations_ns.push_back(completion.end_ns - completion.submit_ns);
  }
  return median(std::move(durations_ns));
}

Result<int64_t> DriveLoadGenerator::read_latency_ns() {
  return idle_ns(io::Direction::kRead, small_, storage::Priority::kPlanned);
}

// Until there are enough samples, every write that ends is followed by another, and so is every
// read.
Result<int64_t> DriveLoadGenerator::urgent_read_behind_writes_ns() {
  for (int32_t lane = 0; lane < kLoadTransfersAtOnce; ++lane)
    load_->submit(io::Direction::kWrite, lane, load_->next_extent(io::Direction::kWrite, lane));
  int32_t under_way = kLoadTransfersAtOnce;
  bool is_reading = false;
  std::vector<int64_t> durations_ns;
  Status status;
  while (under_way > 0) {
    const LoadGenerator::Ending ending = load_->wait_for_ending();
    --under_way;
    if (status.ok()) status = ending.completion.status;
    if (ending.direction == io::Direction::kRead) {
      durations_ns.push_back(ending.completion.end_ns - ending.completion.submit_ns);
      is_reading = false;
    }
    if (!status.ok() || durations_ns.size() >= kLatencySamples) continue;
    if (ending.direction == io::Direction::kWrite) {
      load_->submit(io::Direction::kWrite, ending.lane,
                    load_->next_extent(io::Direction::kWrite, ending.lane));
      ++under_way;
    }
    if (is_reading) continue;
    load_->submit(io::Direction::kRead, kUrgentLane, request_, storage::Priority::kUrgent);
    is_reading = true;
    ++under_way;
  }
  if (!status.ok()) return status;
  return median(std::move(durations_ns));
}

Result<UrgentLatency> DriveLoadGenerator::urgent_latency() {
  const auto write_ns = idle_ns(io::Direction::kWrite, request_, storage::Priority::kPlanned);
  if (!write_ns.ok()) return write_ns.status();
  const auto idle = idle_ns(io::Direction::kRead, request_, storage::Priority::kUrgent);
  if (!idle.ok()) return idle.status();
  const auto busy = urgent_read_behind_writes_ns();
  if (!busy.ok()) return busy.status();
  return UrgentLatency{*idle, *busy, *write_ns};
}

int64_t DriveLoadGenerator::buffer_bytes() const {
  return static_cast<int64_t>(1 + targets_.size()) * kTransferBytes;
}

}  // namespace teraio::probe
