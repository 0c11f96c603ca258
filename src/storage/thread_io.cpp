#include "storage/thread_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace teraio {
namespace {

class ThreadIo final : public DriveIo {
 public:
  ThreadIo(int fd, bool is_direct, int32_t window);
  ~ThreadIo() override;

  std::string_view description() const override {
    return is_direct_ ? "threads direct" : "threads buffered";
  }
  void submit(const IoRequest& request) override;
  void wait(std::vector<IoResult>& results) override;
  void wake() override;

 private:
  void serve();
  int64_t transfer(const IoRequest& request) const;
  void drop_cache(const IoRequest& request) const;

  const int fd_;
  const bool is_direct_;
  std::mutex mutex_;
  std::condition_variable requests_changed_;
  std::condition_variable results_changed_;
  std::deque<IoRequest> requests_;
  std::vector<IoResult> results_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

ThreadIo::ThreadIo(int fd, bool is_direct, int32_t window) : fd_(fd), is_direct_(is_direct) {
  // A thread for every request that may be in flight: none waits behind one of the other direction.
  for (int32_t i = 0; i < window; ++i) threads_.emplace_back([this] { serve(); });
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
    const int64_t result = transfer(request);
    lock.lock();
    results_.push_back({request.tag, result});
    results_changed_.notify_one();
  }
}

int64_t ThreadIo::transfer(const IoRequest& request) const {
  const auto size = static_cast<size_t>(request.size_bytes);
  const ssize_t moved = request.direction == Direction::kRead
                            ? pread(fd_, request.memory, size, request.offset_bytes)
                            : pwrite(fd_, request.memory, size, request.offset_bytes);
  if (moved < 0) return -errno;
  if (!is_direct_) drop_cache(request);
  return moved;
}

void ThreadIo::drop_cache(const IoRequest& request) const {
  if (request.direction == Direction::kWrite) {
    // Only clean pages can be dropped.
    sync_file_range(fd_, request.offset_bytes, request.size_bytes,
                    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  posix_fadvise(fd_, request.offset_bytes, request.size_bytes, POSIX_FADV_DONTNEED);
}

}  // namespace

std::unique_ptr<DriveIo> make_thread_io(int fd, bool is_direct, int32_t window) {
  return std::make_unique<ThreadIo>(fd, is_direct, window);
}

}  // namespace teraio
