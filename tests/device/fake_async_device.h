// FakeAsyncDevice: a device whose compute and copies happen late and out of order, as a GPU's may.
//
// Work only queues up when it is asked for. step() does one thing that may happen now, chosen by
// the seed: the next piece of compute, the begin of a copy, or the end of one; copies overtake each
// other. The bytes of a copy arrive at its end, until when its target is poisoned. Use that the
// Device contract does not allow is noted in violations(): a block released under a copy, compute
// that reads bytes before they arrived, a copy of bytes that compute has yet to write, a source
// that changes under way. The same seed and calls give the same run. Any thread may call anything.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "device/cpu_device.h"

namespace teraio {

enum class Progress : uint8_t {
  kOnWait,  // wait() and has_passed() step: whoever waits gets there
  kManual,  // only step() does: wait() blocks until another thread has stepped far enough
};

struct FakeAsyncOptions {
  int64_t budget_bytes = int64_t{64} << 20;
  uint64_t seed = 1;
  Progress progress = Progress::kOnWait;
  // Copies by number, from 1 on; 0: none.
  int64_t refused_copy = 0;  // cannot even be asked for
  int64_t failing_copy = 0;  // ends without its bytes, which wait() tells
};

class FakeAsyncDevice final : public Device {
 public:
  struct Bytes {
    const std::byte* begin = nullptr;
    int64_t size_bytes = 0;

    bool overlaps(const Bytes& other) const {
      return begin < other.begin + other.size_bytes && other.begin < begin + size_bytes;
    }
  };

  // What a kernel launch is: `run` happens in compute order, some time. It must not call the
  // device.
  struct Compute {
    std::vector<Bytes> reads;
    std::vector<Bytes> writes;
    std::function<void()> run;
  };

  explicit FakeAsyncDevice(FakeAsyncOptions options)
      : options_(options),
        random_(options.seed),
        memory_(std::move(*make_cpu_device(options.budget_bytes))) {}

  // --- for the test ---

  void launch(Compute compute) {
    const std::lock_guard lock(mutex_);
    compute_.push_back({std::move(compute), Event{}, Event{}});
  }

  // False: nothing can happen.
  bool step() {
    const std::lock_guard lock(mutex_);
    return step_locked();
  }

  void run_all() {
    while (step()) continue;
  }

  int64_t copies_waiting() const {
    const std::lock_guard lock(mutex_);
    return std::count_if(copies_.begin(), copies_.end(),
                         [](auto& copy) { return !copy.has_begun; });
  }

  int64_t copies_under_way() const {
    const std::lock_guard lock(mutex_);
    return copies_.size();
  }

  // Blocks until `count` copies have been asked for since the start.
  void wait_for_copies(int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copy_count_ >= count; });
  }

  int64_t pinned_bytes() const {
    const std::lock_guard lock(mutex_);
    int64_t sum_bytes = 0;
    for (const Bytes& bytes : pinned_) sum_bytes += bytes.size_bytes;
    return sum_bytes;
  }

  std::vector<std::string> violations() const {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

  // --- Device ---

  std::string_view name() const override { return "fake"; }
  bool is_host_addressable() const override { return false; }

  std::byte* allocate(int64_t size_bytes) override {
    const std::lock_guard lock(mutex_);
    std::byte* memory = memory_->allocate(size_bytes);
    if (memory == nullptr) return nullptr;
    blocks_.push_back({memory, size_bytes});
    std::memset(memory, kPoison, size_bytes);
    return memory;
  }

  void release(std::byte* memory) override {
    const std::lock_guard lock(mutex_);
    auto block = std::find_if(blocks_.begin(), blocks_.end(),
                              [&](const Bytes& bytes) { return bytes.begin == memory; });
    if (block != blocks_.end()) {
      for (const Copy& copy : copies_) {
        if (copy.device.overlaps(*block)) note("released before the copy ended");
      }
      for (const ComputeItem& item : compute_) {
        if (uses(item.compute, *block)) note("released before compute was done with it");
      }
      std::memset(memory, kPoison, block->size_bytes);
      blocks_.erase(block);
    }
    memory_->release(memory);
  }

  void set_budget_bytes(int64_t budget_bytes) override {
    const std::lock_guard lock(mutex_);
    memory_->set_budget_bytes(budget_bytes);
  }
  int64_t allocated_bytes() const override { return usage().allocated_bytes; }
  MemoryUsage usage() const override {
    const std::lock_guard lock(mutex_);
    return memory_->usage();
  }
  void reset_peak() override {
    const std::lock_guard lock(mutex_);
    memory_->reset_peak();
  }

  Event record() override {
    const std::lock_guard lock(mutex_);
    const Event event = new_event();
    compute_.push_back({{}, Event{}, event});
    return event;
  }

  Status order_after(Event event) override {
    const std::lock_guard lock(mutex_);
    compute_.push_back({{}, event, Event{}});
    return {};
  }

  bool has_passed(Event event) const override {
    const std::lock_guard lock(mutex_);
    if (options_.progress == Progress::kOnWait) const_cast<FakeAsyncDevice*>(this)->step_locked();
    return passed(event);
  }

  Status wait(Event event) override {
    std::unique_lock lock(mutex_);
    if (options_.progress == Progress::kManual) {
      changed_.wait(lock, [&] { return passed(event); });
    }
    while (!passed(event)) {
      if (!step_locked()) return Status(ErrorCode::kInternal, "fake: would wait for ever");
    }
    return failed_.count(event.id) > 0 ? Status(ErrorCode::kIoError, "fake: copy failed")
                                       : Status();
  }

  Status pin_host(std::byte* host, int64_t size_bytes) override {
    const std::lock_guard lock(mutex_);
    pinned_.push_back({host, size_bytes});
    return {};
  }
  void unpin_host(std::byte* host) override {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(pinned_.begin(), pinned_.end(),
                                    [&](const Bytes& bytes) { return bytes.begin == host; });
    if (known == pinned_.end()) return note("unpinned what was not pinned");
    pinned_.erase(known);
  }

  Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                             Event after) override {
    return queue_copy({host, device, {device, size_bytes}, size_bytes, true, after});
  }
  Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                               Event after) override {
    return queue_copy({device, host, {device, size_bytes}, size_bytes, false, after});
  }

 private:
  static constexpr int kPoison = 0xCD;

  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Bytes device;
    int64_t size_bytes = 0;
    bool is_to_host = false;
    Event after;
    Event end{};
    bool has_begun = false;
    std::vector<std::byte> seen{};  // the source at the copy's begin
  };

  // One of: work, a wait for an event, an event to be passed.
  struct ComputeItem {
    Compute compute;
    Event after;
    Event mark;
  };

  Event new_event() { return Event{++last_event_}; }
  bool passed(Event event) const { return event.id == 0 || passed_.count(event.id) > 0; }
  void pass(Event event) {
    if (event.id != 0) passed_.insert(event.id);
    changed_.notify_all();
  }
  void note(const std::string& violation) { violations_.push_back(violation); }

  static bool any_overlaps(const std::vector<Bytes>& ranges, const Bytes& bytes) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const Bytes& range) { return range.overlaps(bytes); });
  }
  static bool uses(const Compute& compute, const Bytes& bytes) {
    return any_overlaps(compute.reads, bytes) || any_overlaps(compute.writes, bytes);
  }

  Result<Event> queue_copy(Copy copy) {
    const std::lock_guard lock(mutex_);
    copy.end = new_event();
    ++copy_count_;
    changed_.notify_all();
    if (copy_count_ == options_.refused_copy) {
      return Status(ErrorCode::kIoError, "fake: copy refused");
    }
    if (copy_count_ == options_.failing_copy) failed_.insert(copy.end.id);
    copies_.push_back(copy);
    return copy.end;
  }

  bool step_locked() {
    std::vector<std::function<void()>> possible;
    if (!compute_.empty() && passed(compute_.front().after)) {
      possible.push_back([this] { advance_compute(); });
    }
    for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
      if (copy->has_begun) {
        possible.push_back([this, copy] { end_copy(copy); });
      } else if (passed(copy->after)) {
        possible.push_back([this, copy] { begin_copy(*copy); });
      }
    }
    if (possible.empty()) return false;
    possible[random_() % possible.size()]();
    return true;
  }

  void advance_compute() {
    const ComputeItem item = std::move(compute_.front());
    compute_.pop_front();
    for (const Copy& copy : copies_) {
      if (!passed(copy.after)) continue;
      if (!copy.is_to_host && uses(item.compute, copy.device)) note("used before it arrived");
      if (copy.is_to_host && any_overlaps(item.compute.writes, copy.device)) {
        note("written before it was copied out");
      }
    }
    if (item.compute.run) item.compute.run();
    pass(item.mark);
  }

  void begin_copy(Copy& copy) {
    copy.has_begun = true;
    for (const ComputeItem& item : compute_) {
      if (item.after.id == copy.end.id) break;  // from here on compute waits for the copy
      const bool is_early = copy.is_to_host ? any_overlaps(item.compute.writes, copy.device)
                                            : uses(item.compute, copy.device);
      if (is_early) note("copied before compute was there");
    }
    copy.seen.assign(copy.from, copy.from + copy.size_bytes);
    std::memset(copy.to, kPoison, copy.size_bytes);
  }

  void end_copy(std::list<Copy>::iterator copy) {
    if (std::memcmp(copy->seen.data(), copy->from, copy->size_bytes) != 0) {
      note("source changed during the copy");
    }
    const bool is_good = failed_.count(copy->end.id) == 0;
    if (is_good) std::memcpy(copy->to, copy->seen.data(), copy->size_bytes);
    const Event end = copy->end;
    copies_.erase(copy);
    pass(end);
  }

  const FakeAsyncOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::unique_ptr<Device> memory_;
  std::vector<Bytes> blocks_;
  std::deque<ComputeItem> compute_;
  std::list<Copy> copies_;
  std::unordered_set<uint64_t> passed_;
  std::unordered_set<uint64_t> failed_;
  std::vector<Bytes> pinned_;
  uint64_t last_event_ = 0;
  int64_t copy_count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace teraio
