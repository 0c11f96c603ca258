#include "storage/host_store.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/host_memory.h"
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

// The pool as a drive. A request is a copy on the device, and its result is the copy's end. While a
// copy is in flight, wait() waits for its end even if wake() is called.
class HostIo final : public io::DriveIo {
 public:
  HostIo(device::HostMemory pool, device::Device& device)
      : pool_(std::move(pool)), device_(device), description_("copies, " + pool_.description()) {}

  std::string_view description() const override { return description_; }
  void submit(const io::IoRequest& request) override;
  void wait(std::vector<io::IoResult>& results) override;
  void wake() override;

 private:
  struct Copy {
    uint64_t tag = 0;
    int64_t size_bytes = 0;
    device::Event end;
    Status failure = {};  // of a copy that could not begin
  };

  device::HostMemory pool_;
  device::Device& device_;
  const std::string description_;
  std::deque<Copy> copies_;  // used by the drive's thread only, in the order of their start
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

void HostIo::submit(const io::IoRequest& request) {
  std::byte* host = pool_.at(request.offset_bytes);
  const Result<device::Event> end =
      request.direction == io::Direction::kRead
          ? device_.copy_from_host(request.memory, host, request.size_bytes, request.after)
          : device_.copy_to_host(host, request.memory, request.size_bytes, request.after);
  if (end.ok()) {
    if (request.arrival != nullptr) *request.arrival = *end;
    copies_.push_back({request.tag, request.size_bytes, *end});
  } else {
    copies_.push_back({request.tag, 0, device::Event{}, end.status()});
  }
}

void HostIo::wait(std::vector<io::IoResult>& results) {
  if (copies_.empty()) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [&] { return is_woken_; });
    is_woken_ = false;
    return;
  }
  Copy copy = std::move(copies_.front());
  copies_.pop_front();
  if (copy.failure.ok()) copy.failure = device_.wait(copy.end);
  results.push_back({copy.tag, copy.size_bytes, std::move(copy.failure)});
}

void HostIo::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_one();
}

}  // namespace

Result<std::unique_ptr<TierStore>> open_host_store(int64_t limit_bytes, device::Device& device,
                                                   const Clock& clock) {
  const int64_t capacity_bytes = limit_bytes / io::kBlockBytes * io::kBlockBytes;
  if (capacity_bytes <= 0)
    return Status(ErrorCode::kInvalidArgument, "host: a limit of " + format_size(limit_bytes) +
                                                   " holds nothing: expected " +
                                                   format_size(io::kBlockBytes) + " or more");
  Result<device::HostMemory> pool = device::HostMemory::map(capacity_bytes, device);
  if (!pool.ok()) return pool.status().with_context("host");
  DriveSpec drive;
  drive.name = "host";
  drive.capacity_bytes = capacity_bytes;
  drive.io = std::make_unique<HostIo>(std::move(*pool), device);
  std::vector<DriveSpec> drives;
  drives.push_back(std::move(drive));
  StripedStoreOptions options;
  options.name = "host";
  options.queue_depth = kQueueDepth;
  if (!device.is_host_addressable()) options.request_bytes = kAsynchronousCopyBytes;
  return StripedStore::open(std::move(drives), std::move(options), clock);
}

}  // namespace teraio::storage
