#include "storage/host_store.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "io/copy_watcher.h"
#include "io/drive_io.h"
#include "storage/striped_store.h"

namespace teraio::storage {
namespace {

// Copies are fast and start in order. A short queue keeps an urgent copy from waiting long.
constexpr int32_t kQueueDepth = 2;
// Asynchronous copies use larger requests. A tensor of two requests is then enqueued whole before
// the first has arrived, so only the device waits. At 50 GB/s a request takes less than a
// millisecond.
constexpr int64_t kAsynchronousCopyBytes = 32 * kMiB;

// The pool as a drive. A request is a copy on the device, and its result is the copy's end.
class HostIo final : public io::DriveIo {
 public:
  // `device` must outlive the result. Fails if the system refuses a thread.
  static Result<std::unique_ptr<io::DriveIo>> create(device::HostMemory pool,
                                                     device::Device& device);

  std::string_view description() const override { return description_; }
  void submit(const io::IoRequest& request) override;
  void wait(std::vector<io::IoResult>& results) override;
  void wake() override;

 private:
  HostIo(device::HostMemory pool, device::DeviceOrder& device)
      : pool_(std::move(pool)), device_(device), description_("copies, " + pool_.description()) {}

  Result<device::Event> copy(const io::IoRequest& request);
  void take_ends(std::vector<io::IoResult>& results);

  device::HostMemory pool_;
  device::DeviceOrder& device_;
  const std::string description_;
  // Used by the drive's thread only.
  std::unordered_map<uint64_t, int64_t> sizes_bytes_;  // of the copies in flight, by tag
  std::vector<io::IoResult> done_;                     // copies that had ended at once
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  // Null if copies are complete on return. Last member, so destroyed first.
  std::unique_ptr<io::CopyWatcher> copies_;
};

Result<std::unique_ptr<io::DriveIo>> HostIo::create(device::HostMemory pool,
                                                    device::Device& device) {
  std::unique_ptr<HostIo> io(new HostIo(std::move(pool), device));
  if (device.is_host_addressable()) return std::unique_ptr<io::DriveIo>(std::move(io));
  auto copies = io::CopyWatcher::create(device, [self = io.get()] { self->wake(); });
  if (!copies.ok()) return copies.status();
  io->copies_ = std::move(*copies);
  return std::unique_ptr<io::DriveIo>(std::move(io));
}

Result<device::Event> HostIo::copy(const io::IoRequest& request) {
  std::byte* host = pool_.at(request.offset_bytes);
  return request.direction == io::Direction::kRead
             ? device_.copy_from_host(request.memory, host, request.size_bytes, request.after)
             : device_.copy_to_host(host, request.memory, request.size_bytes, request.after);
}

void HostIo::submit(const io::IoRequest& request) {
  const Result<device::Event> end = copy(request);
  if (!end.ok() || end->id == 0) {
    done_.push_back({request.tag, request.size_bytes, end.status()});
    return;
  }
  if (request.arrival != nullptr) *request.arrival = *end;
  sizes_bytes_[request.tag] = request.size_bytes;
  copies_->watch(request.direction, request.tag, end);
}

void HostIo::wait(std::vector<io::IoResult>& results) {
  if (done_.empty()) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [&] { return is_woken_; });
    is_woken_ = false;
  }
  results.insert(results.end(), done_.begin(), done_.end());
  done_.clear();
  take_ends(results);
}

void HostIo::take_ends(std::vector<io::IoResult>& results) {
  if (copies_ == nullptr) return;
  for (io::CopyWatcher::End& end : copies_->take()) {
    const auto node = sizes_bytes_.extract(end.tag);
    results.push_back({end.tag, node.mapped(), std::move(end.status)});
  }
}

void HostIo::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_one();
}

}  // namespace

Result<device::HostMemory> map_host_pool(int64_t limit_bytes, device::Device& device) {
  const int64_t capacity_bytes = limit_bytes / io::kBlockBytes * io::kBlockBytes;
  if (capacity_bytes <= 0)
    return Status(ErrorCode::kInvalidArgument, "host: a limit of " + format_size(limit_bytes) +
                                                   " holds nothing: expected " +
                                                   format_size(io::kBlockBytes) + " or more");
  Result<device::HostMemory> pool = device::HostMemory::map(capacity_bytes, device);
  if (!pool.ok()) return pool.status().with_context("host");
  return pool;
}

Result<std::unique_ptr<TierStore>> open_host_store(device::HostMemory pool, device::Device& device,
                                                   const Clock& clock) {
  const int64_t capacity_bytes = pool.size_bytes();
  Result<std::unique_ptr<io::DriveIo>> io = HostIo::create(std::move(pool), device);
  if (!io.ok()) return io.status().with_context("host");
  DriveSpec drive;
  drive.name = "host";
  drive.capacity_bytes = capacity_bytes;
  drive.io = std::move(*io);
  std::vector<DriveSpec> drives;
  drives.push_back(std::move(drive));
  StripedStoreOptions options;
  options.name = "host";
  options.queue_depth = kQueueDepth;
  options.device = &device;
  if (!device.is_host_addressable()) options.request_bytes = kAsynchronousCopyBytes;
  return StripedStore::open(std::move(drives), std::move(options), clock);
}

Result<std::unique_ptr<TierStore>> open_host_store(int64_t limit_bytes, device::Device& device,
                                                   const Clock& clock) {
  Result<device::HostMemory> pool = map_host_pool(limit_bytes, device);
  if (!pool.ok()) return pool.status();
  return open_host_store(std::move(*pool), device, clock);
}

}  // namespace teraio::storage
