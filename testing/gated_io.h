// A drive whose requests end when the test says so, with the result that the test chooses.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "io/drive_io.h"

namespace teraio::testing {

inline constexpr int64_t kAllBytes = std::numeric_limits<int64_t>::max();

// The test's side of the drive, which must outlive it. Any thread.
class Gate {
 public:
  // Blocks until the drive's thread has nothing left to start, then returns all requests so far.
  std::vector<io::IoRequest> begun() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_asleep_; });
    return begun_;
  }

  // Like begun(), without the requests that have ended.
  std::vector<io::IoRequest> in_flight() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_asleep_; });
    return in_flight_;
  }

  // Ends one request. kAllBytes stands for its full size.
  void end(const io::IoRequest& request, int64_t result = kAllBytes) {
    const std::lock_guard lock(mutex_);
    end_locked(request, result);
    changed_.notify_all();
  }

  // Ends all requests in flight and, from now on, every new one at once.
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    const std::vector<io::IoRequest> requests = in_flight_;
    for (const io::IoRequest& request : requests) end_locked(request, kAllBytes);
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }

 private:
  friend class GatedIo;

  void end_locked(const io::IoRequest& request, int64_t result) {
    in_flight_.erase(
        std::find_if(in_flight_.begin(), in_flight_.end(),
                     [&](const io::IoRequest& other) { return other.tag == request.tag; }));
    is_asleep_ = false;
    results_.push_back({request.tag, result == kAllBytes ? request.size_bytes : result});
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<io::IoRequest> begun_;
  std::vector<io::IoRequest> in_flight_;
  std::vector<io::IoResult> results_;
  bool is_asleep_ = false;
  bool is_woken_ = false;
  bool is_open_ = false;
};

class GatedIo final : public io::DriveIo {
 public:
  explicit GatedIo(Gate& gate) : gate_(gate) {}

  std::string_view description() const override { return "gated"; }

  void submit(const io::IoRequest& request) override {
    const std::lock_guard lock(gate_.mutex_);
    gate_.begun_.push_back(request);
    gate_.in_flight_.push_back(request);
    if (gate_.is_open_) gate_.end_locked(request, kAllBytes);
    gate_.changed_.notify_all();
  }

  void wait(std::vector<io::IoResult>& results) override {
    std::unique_lock lock(gate_.mutex_);
    gate_.is_asleep_ = gate_.results_.empty() && !gate_.is_woken_;
    gate_.changed_.notify_all();
    gate_.changed_.wait(lock, [&] { return gate_.is_woken_ || !gate_.results_.empty(); });
    results.insert(results.end(), gate_.results_.begin(), gate_.results_.end());
    gate_.results_.clear();
    gate_.is_woken_ = false;
    gate_.is_asleep_ = false;
  }

  void wake() override {
    const std::lock_guard lock(gate_.mutex_);
    gate_.is_woken_ = true;
    gate_.is_asleep_ = false;
    gate_.changed_.notify_all();
  }

 private:
  Gate& gate_;
};

}  // namespace teraio::testing
