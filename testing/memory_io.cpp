#include "testing/memory_io.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

namespace teraio::testing {
namespace {

class MemoryIo final : public io::DriveIo {
 public:
  MemoryIo(const MemoryDriveOptions& options, VirtualClock& clock)
      : options_(options),
        clock_(clock),
        bytes_(static_cast<size_t>(options.capacity_bytes)),
        random_(options.seed) {}

  std::string_view description() const override { return "memory"; }
  void submit(const io::IoRequest& request) override;
  void wait(std::vector<io::IoResult>& results) override;
  void wake() override;

 private:
  int64_t transfer(const io::IoRequest& request);
  int64_t duration_ns(const io::IoRequest& request);

  const MemoryDriveOptions options_;
  VirtualClock& clock_;
  std::vector<std::byte> bytes_;
  std::mt19937_64 random_;
  int64_t free_at_ns_[2] = {0, 0};                   // per direction: when its last byte has moved
  std::multimap<int64_t, io::IoRequest> by_end_ns_;  // in flight
  std::mutex mutex_;                                 // protects is_woken_
  std::condition_variable woken_;
  bool is_woken_ = false;
};

int64_t MemoryIo::duration_ns(const io::IoRequest& request) {
  const int64_t rate = request.direction == io::Direction::kRead
                           ? options_.rates.read_bytes_per_second
                           : options_.rates.write_bytes_per_second;
  return static_cast<int64_t>(static_cast<double>(request.size_bytes) * 1e9 /
                              static_cast<double>(rate));
}

void MemoryIo::submit(const io::IoRequest& request) {
  std::uniform_int_distribution<int64_t> latency(options_.latency_ns_min, options_.latency_ns_max);
  int64_t& free_at_ns = free_at_ns_[static_cast<size_t>(request.direction)];
  free_at_ns = std::max(free_at_ns, clock_.now_ns()) + duration_ns(request);
  by_end_ns_.emplace(free_at_ns + latency(random_), request);
}

// Moves the bytes at the end, so that memory that its owner releases too early shows.
int64_t MemoryIo::transfer(const io::IoRequest& request) {
  if (request.offset_bytes < 0 ||
      request.offset_bytes + request.size_bytes > options_.capacity_bytes)
    return -EINVAL;
  std::byte* place = bytes_.data() + request.offset_bytes;
  const auto size = static_cast<size_t>(request.size_bytes);
  if (request.direction == io::Direction::kRead)
    std::memcpy(request.memory, place, size);
  else
    std::memcpy(place, request.memory, size);
  return request.size_bytes;
}

void MemoryIo::wait(std::vector<io::IoResult>& results) {
  std::unique_lock lock(mutex_);
  if (by_end_ns_.empty()) woken_.wait(lock, [this] { return is_woken_; });
  is_woken_ = false;
  lock.unlock();
  if (by_end_ns_.empty()) return;
  const auto first = by_end_ns_.begin();
  clock_.advance_to(first->first);
  results.push_back({first->second.tag, transfer(first->second)});
  by_end_ns_.erase(first);
}

void MemoryIo::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  woken_.notify_one();
}

}  // namespace

std::unique_ptr<io::DriveIo> make_memory_io(const MemoryDriveOptions& options,
                                            VirtualClock& clock) {
  return std::make_unique<MemoryIo>(options, clock);
}

}  // namespace teraio::testing
