#include "storage/host_store.h"

#include <sys/mman.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "base/units.h"
#include "storage/drive_io.h"
#include "storage/striped_store.h"

namespace teraio {
namespace {

// Copies are fast and begin in order, so few are handed out ahead: an urgent one waits for no more.
constexpr int32_t kQueueDepth = 2;

// Addresses for the whole pool; a page costs memory from its first use on.
class Mapping {
 public:
  static Result<Mapping> create(int64_t size_bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (memory == MAP_FAILED) {
      return Status(ErrorCode::kOutOfMemory,
                    "host: the system refuses a pool of " + format_size(size_bytes));
    }
    madvise(memory, size_bytes, MADV_HUGEPAGE);  // advice: refused where there are no huge pages
    return Mapping(static_cast<std::byte*>(memory), size_bytes);
  }

  Mapping(Mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_bytes_(other.size_bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, size_bytes_);
  }

  std::byte* at(int64_t offset_bytes) const { return memory_ + offset_bytes; }

 private:
  Mapping(std::byte* memory, int64_t size_bytes) : memory_(memory), size_bytes_(size_bytes) {}

  std::byte* memory_;
  int64_t size_bytes_;
};

// The pool as a drive: a request is a copy on the device's copy order, its result the copy's event.
class HostIo final : public DriveIo {
 public:
  HostIo(Mapping pool, Device& device) : pool_(std::move(pool)), device_(device) {}

  std::string_view description() const override { return "copies"; }
  void submit(const IoRequest& request) override;
  void wait(std::vector<IoResult>& results) override;
  void wake() override;

 private:
  struct Copy {
    uint64_t tag = 0;
    int64_t result = 0;
    Event end;
  };

  Mapping pool_;
  Device& device_;
  std::deque<Copy> copies_;  // of the drive's thread alone, in the order of their begin
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

void HostIo::submit(const IoRequest& request) {
  std::byte* host = pool_.at(request.offset_bytes);
  const Result<Event> end =
      request.direction == Direction::kRead
          ? device_.copy_from_host(request.memory, host, request.size_bytes, Event{})
          : device_.copy_to_host(host, request.memory, request.size_bytes, Event{});
  if (end.ok()) {
    copies_.push_back({request.tag, request.size_bytes, *end});
  } else {
    copies_.push_back({request.tag, -EIO, Event{}});
  }
}

void HostIo::wait(std::vector<IoResult>& results) {
  if (copies_.empty()) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [&] { return is_woken_; });
    is_woken_ = false;
    return;
  }
  const Copy copy = copies_.front();
  copies_.pop_front();
  const bool is_done = device_.wait(copy.end).ok();
  results.push_back({copy.tag, is_done ? copy.result : -EIO});
}

void HostIo::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_one();
}

}  // namespace

Result<std::unique_ptr<TierStore>> open_host_store(int64_t limit_bytes, Device& device,
                                                   const Clock& clock) {
  const int64_t capacity_bytes = limit_bytes / kBlockBytes * kBlockBytes;
  if (capacity_bytes <= 0) {
    return Status(ErrorCode::kInvalidArgument, "host: a limit of " + format_size(limit_bytes) +
                                                   " holds nothing: expected " +
                                                   format_size(kBlockBytes) + " or more");
  }
  Result<Mapping> pool = Mapping::create(capacity_bytes);
  if (!pool.ok()) return pool.status();
  DriveSpec drive;
  drive.name = "host";
  drive.capacity_bytes = capacity_bytes;
  drive.io = std::make_unique<HostIo>(std::move(*pool), device);
  std::vector<DriveSpec> drives;
  drives.push_back(std::move(drive));
  StripedStoreOptions options;
  options.name = "host";
  options.queue_depth = kQueueDepth;
  return std::unique_ptr<TierStore>(
      std::make_unique<StripedStore>(std::move(drives), std::move(options), clock));
}

}  // namespace teraio
