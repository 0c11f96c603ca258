#include "io/thread_io.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "io/fork_guard.h"

namespace teraio::io {
namespace {

class ThreadIo final : public DriveIo {
 public:
  explicit ThreadIo(ThreadIoOptions options) : options_(std::move(options)) {}
  ~ThreadIo() override;

  // Fails if there is no thread at all.
  Status start();

  std::string_view description() const override { return options_.description; }
  std::string error_text(int64_t error_number) const override {
    return options_.error_text ? options_.error_text(error_number)
                               : DriveIo::error_text(error_number);
  }
  void submit(const IoRequest& request) override;
  void wait(std::vector<IoResult>& results) override;
  void wake() override;

 private:
  void serve();

  const ThreadIoOptions options_;
  std::mutex mutex_;
  std::condition_variable requests_changed_;
  std::condition_variable results_changed_;
  std::deque<IoRequest> requests_;
  std::vector<IoResult> results_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

Status ThreadIo::start() {
  // One thread per request in flight, so that no request waits behind another.
  for (int32_t i = 0; i < options_.in_flight_max; ++i) {
    Result<std::thread> thread = start_thread([this] { serve(); });
    if (!thread.ok() && threads_.empty()) return thread.status();
    if (!thread.ok()) {
      spdlog::warn(
          "{}: {}: {} of {} requests at a time are made, which is slower. Raise the limit of "
          "processes (ulimit -u)",
          options_.description, thread.status().message(), i, options_.in_flight_max);
      return {};
    }
    threads_.push_back(std::move(*thread));
  }
  return {};
}

ThreadIo::~ThreadIo() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  requests_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadIo::submit(const IoRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  requests_changed_.notify_one();
}

void ThreadIo::wait(std::vector<IoResult>& results) {
  std::unique_lock lock(mutex_);
  results_changed_.wait(lock, [this] { return is_woken_ || !results_.empty(); });
  results.insert(results.end(), results_.begin(), results_.end());
  results_.clear();
  is_woken_ = false;
}

void ThreadIo::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  results_changed_.notify_one();
}

void ThreadIo::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    requests_changed_.wait(lock, [this] { return is_stopping_ || !requests_.empty(); });
    if (requests_.empty()) return;
    const IoRequest request = requests_.front();
    requests_.pop_front();
    lock.unlock();
    const Result<int64_t> moved = options_.transfer(request);
    lock.lock();
    results_.push_back({request.tag, moved.ok() ? *moved : 0, moved.status()});
    results_changed_.notify_one();
    if (!options_.on_result) continue;
    lock.unlock();
    options_.on_result();
    lock.lock();
  }
}

int64_t move(int fd, const IoRequest& request) {
  const auto size = static_cast<size_t>(request.size_bytes);
  const ssize_t moved = request.direction == Direction::kRead
                            ? pread(fd, request.memory, size, request.offset_bytes)
                            : pwrite(fd, request.memory, size, request.offset_bytes);
  return moved < 0 ? -errno : moved;
}

// Whether the file system regards all bytes of the range as written; nullopt: it does not tell.
// Preallocated blocks count as unwritten until it has noted in its metadata that they hold data.
// When that fails, ext4 logs "potential data loss", and neither sync_file_range() nor fdatasync()
// returns an error; later reads return zeros.
std::optional<bool> keeps_bytes(int fd, int64_t offset_bytes, int64_t size_bytes, uint32_t flags) {
  constexpr uint32_t kExtents = 16;
  constexpr uint32_t kNotWritten = FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC;
  alignas(fiemap) std::byte memory[sizeof(fiemap) + kExtents * sizeof(fiemap_extent)];
  auto* map = reinterpret_cast<fiemap*>(memory);
  auto position = static_cast<uint64_t>(offset_bytes);
  const uint64_t end = position + static_cast<uint64_t>(size_bytes);
  while (position < end) {
    std::memset(memory, 0, sizeof(memory));
    map->fm_start = position;
    map->fm_length = end - position;
    map->fm_extent_count = kExtents;
    map->fm_flags = flags;
    if (ioctl(fd, FS_IOC_FIEMAP, map) != 0) return std::nullopt;
    if (map->fm_mapped_extents == 0) return false;
    for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& extent = map->fm_extents[i];
      if (extent.fe_logical > position || (extent.fe_flags & kNotWritten) != 0) return false;
      position = extent.fe_logical + extent.fe_length;
    }
  }
  return true;
}

// Transfers through the page cache, which a transfer leaves as it found it. A write has succeeded
// only when the drive has the bytes: the kernel reports late what it could not write, once for each
// open file description, and forgets the bytes. Therefore a write has a description of its own
// while it runs, so that no other write takes its error.
class BufferedFile {
 public:
  // `fd` outlives this object. Opens the same file `count` times.
  BufferedFile(int fd, int32_t count) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    for (int32_t i = 0; i < count; ++i) {
      const int own_fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (own_fd >= 0) idle_.push_back(own_fd);
    }
    if (idle_.empty()) idle_.push_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    for (const int own_fd : idle_) guards_.emplace_back(own_fd);
  }
  ~BufferedFile() {
    guards_.clear();
    for (const int fd : idle_) close(fd);
  }
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  int64_t transfer(const IoRequest& request) {
    const int fd = take();
    const int64_t result =
        request.direction == Direction::kRead ? move(fd, request) : write_and_sync(fd, request);
    posix_fadvise(fd, request.offset_bytes, request.size_bytes, POSIX_FADV_DONTNEED);
    give_back(fd);
    return result;
  }

 private:
  static int64_t write_and_sync(int fd, const IoRequest& request) {
    // Errors of other writes since this description was last used are not this one's.
    (void)sync_file_range(fd, request.offset_bytes, request.size_bytes,
                          SYNC_FILE_RANGE_WAIT_BEFORE);
    const int64_t result = move(fd, request);
    if (result <= 0) return result;
    if (sync_file_range(
            fd, request.offset_bytes, result,
            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0)
      return -errno;
    if (keeps_bytes(fd, request.offset_bytes, result, 0).value_or(false)) return result;
    // Some file systems note it later than the kernel reports the bytes as written, or do not tell.
    if (fdatasync(fd) != 0) return -errno;
    const auto is_kept = keeps_bytes(fd, request.offset_bytes, result, FIEMAP_FLAG_SYNC);
    return is_kept.value_or(true) ? result : -EIO;
  }

  int take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return !idle_.empty(); });
    const int fd = idle_.back();
    idle_.pop_back();
    return fd;
  }

  void give_back(int fd) {
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(fd);
    }
    returned_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<int> idle_;
  std::vector<ForkGuard> guards_;
};

}  // namespace

Result<std::unique_ptr<DriveIo>> make_thread_io(ThreadIoOptions options) {
  auto io = std::make_unique<ThreadIo>(std::move(options));
  TERAIO_RETURN_IF_ERROR(io->start());
  return std::unique_ptr<DriveIo>(std::move(io));
}

Result<std::unique_ptr<DriveIo>> make_thread_io(int fd, bool is_direct, int32_t in_flight_max) {
  ThreadIoOptions options;
  options.description = is_direct ? "threads direct" : "threads buffered";
  options.in_flight_max = in_flight_max;
  if (is_direct) {
    options.transfer = [fd](const IoRequest& request) { return move(fd, request); };
  } else {
    const auto file = std::make_shared<BufferedFile>(fd, in_flight_max);
    options.transfer = [file](const IoRequest& request) { return file->transfer(request); };
  }
  return make_thread_io(std::move(options));
}

}  // namespace teraio::io
