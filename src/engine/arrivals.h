// Arrivals: the queue in which the stores' threads leave finished transfers for the engine.
//
// Threads: add() and has_any() may be called by any thread, the others by one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/live_tensor.h"
#include "storage/tier_store.h"

namespace teraio::engine {

struct Arrival {
  LiveTensor* tensor = nullptr;
  io::Direction direction = io::Direction::kRead;
  storage::Completion completion;
  std::vector<device::Event> on_copies_enqueued =
      {};  // not empty: the transfer goes on, and ends by these
};

class Arrivals {
 public:
  // Any thread.
  void add(Arrival arrival) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(arrival));
      has_any_.store(true, std::memory_order_release);
    }
    arrived_.notify_one();
  }

  // Every op asks this; it costs one atomic load.
  bool has_any() const { return has_any_.load(std::memory_order_acquire); }

  // Takes all that has arrived, in order; empty when nothing has.
  std::vector<Arrival> take() {
    const std::lock_guard lock(mutex_);
    has_any_.store(false, std::memory_order_relaxed);
    return std::exchange(waiting_, {});
  }

  // Blocks until something has arrived or `limit` has passed. True: something has arrived.
  bool wait_for(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, limit, [this] { return !waiting_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Arrival> waiting_;
  std::atomic<bool> has_any_ = false;
};

}  // namespace teraio::engine
