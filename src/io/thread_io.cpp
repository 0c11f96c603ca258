#include "io/thread_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace teraio::io {
namespace {

class ThreadIo final : public DriveIo {
 public:
  explicit ThreadIo(ThreadIoOptions options);
  ~ThreadIo() override;

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

ThreadIo::ThreadIo(ThreadIoOptions options) : options_(std::move(options)) {
  // A thread for every request that may be in flight: none waits behind one of the other direction.
  for (int32_t i = 0; i < options_.window; ++i) threads_.emplace_back([this] { serve(); });
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
    const int64_t result = options_.transfer(request);
    lock.lock();
    results_.push_back({request.tag, result});
    results_changed_.notify_one();
    if (!options_.on_result) continue;
    lock.unlock();
    options_.on_result();
    lock.lock();
  }
}

// Only clean pages can be dropped.
void drop_cache(int fd, const IoRequest& request) {
  if (request.direction == Direction::kWrite)
    sync_file_range(fd, request.offset_bytes, request.size_bytes,
                    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  posix_fadvise(fd, request.offset_bytes, request.size_bytes, POSIX_FADV_DONTNEED);
}

int64_t transfer(int fd, bool is_direct, const IoRequest& request) {
  const auto size = static_cast<size_t>(request.size_bytes);
  const ssize_t moved = request.direction == Direction::kRead
                            ? pread(fd, request.memory, size, request.offset_bytes)
                            : pwrite(fd, request.memory, size, request.offset_bytes);
  if (moved < 0) return -errno;
  if (!is_direct) drop_cache(fd, request);
  return moved;
}

}  // namespace

std::unique_ptr<DriveIo> make_thread_io(ThreadIoOptions options) {
  return std::make_unique<ThreadIo>(std::move(options));
}

std::unique_ptr<DriveIo> make_thread_io(int fd, bool is_direct, int32_t window) {
  ThreadIoOptions options;
  options.description = is_direct ? "threads direct" : "threads buffered";
  options.window = window;
  options.transfer = [fd, is_direct](const IoRequest& request) {
    return transfer(fd, is_direct, request);
  };
  return make_thread_io(std::move(options));
}

}  // namespace teraio::io
