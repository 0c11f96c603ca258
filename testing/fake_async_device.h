// FakeAsyncDevice: a device without hardware whose compute and copies happen late and out of order,
// as a GPU's may, and which finds what a GPU would let pass until it breaks a training run.
//
// Work only queues up when it is asked for. step() does one thing that may happen now, chosen by
// the seed: the next piece of compute, the begin of a copy, or the end of one; copies overtake each
// other. The bytes of a copy arrive at its end, until when its target is poisoned; released memory
// is poisoned in compute order. Its addresses are not the CPU's (FakeMemory).
//
// What the Device contract does not allow is noted in violations() when it is asked for, whether or
// not it would have gone well this time. The same seed and calls give the same run. Any thread may
// call anything.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/device.h"
#include "testing/fake_memory.h"

namespace teraio::testing {

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
  // What segments() gives; the test plays their owner.
  device::MemorySegments* segments = nullptr;
};

class FakeAsyncDevice final : public device::Device {
 public:
  struct Bytes {
    const std::byte* begin = nullptr;
    int64_t size_bytes = 0;

    bool overlaps(const Bytes& other) const {
      return begin < other.begin + other.size_bytes && other.begin < begin + size_bytes;
    }
  };

  // What a kernel launch is: `run` happens in compute order, some time. It must not call the
  // device, bytes() aside.
  struct Compute {
    std::vector<Bytes> reads;
    std::vector<Bytes> writes;
    std::function<void()> run;
  };

  explicit FakeAsyncDevice(FakeAsyncOptions options);
  ~FakeAsyncDevice() override;

  // --- for the test ---

  void launch(Compute compute);
  // Another order of work, begun after `after`. Nobody looks after what it uses but whoever waits
  // for record_on(stream).
  void launch_on(void* stream, Compute compute, device::Event after);
  // Where the CPU finds the bytes at an address of this device; others are left as they are.
  std::byte* bytes(const std::byte* address) const { return memory_->bytes(address); }

  // False: nothing can happen.
  bool step();
  void run_all();

  int64_t copies_waiting() const;
  int64_t copies_under_way() const;
  // Blocks until `count` copies have been asked for since the start.
  void wait_for_copies(int64_t count);
  int64_t pinned_bytes() const;
  // Copies to the host that did not wait for compute that changes their source, asked for before or
  // after them: the bytes may be of no use any more, so this is no violation, but poison arrives.
  int64_t torn_copies() const;
  std::vector<std::string> violations() const;

  // --- Device ---

  std::string_view name() const override { return "fake"; }
  bool is_host_addressable() const override { return false; }
  std::byte* allocate(int64_t size_bytes) override;
  void release(std::byte* memory) override;
  void set_budget_bytes(int64_t budget_bytes) override;
  int64_t budget_bytes() const override;
  int64_t allocated_bytes() const override;
  device::MemoryUsage usage() const override;
  void reset_peak() override;
  device::MemorySegments* segments() override { return options_.segments; }
  device::Event record() override;
  device::Event record_on(void* stream) override;
  Status order_after(device::Event event) override;
  bool has_passed(device::Event event) const override;
  Status wait(device::Event event) override;
  Status pin_host(std::byte* host, int64_t size_bytes) override;
  void unpin_host(std::byte* host) override;
  Result<device::Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                     device::Event after) override;
  Result<device::Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                                       device::Event after) override;

 private:
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t size_bytes = 0;
    bool is_to_host = false;
    device::Event after;
    device::Event end{};
    bool has_begun = false;
    bool is_torn = false;
    std::vector<std::byte> seen{};  // the source at the copy's begin

    Bytes source() const { return {from, size_bytes}; }
    Bytes target() const { return {to, size_bytes}; }
    Bytes device() const { return is_to_host ? source() : target(); }
    bool conflicts_with(const Copy& other) const {
      return target().overlaps(other.target()) || target().overlaps(other.source()) ||
             source().overlaps(other.target());
    }
  };

  // One of: work, a wait for an event, an event to be passed.
  struct ComputeItem {
    Compute compute;
    device::Event after;
    device::Event mark;
    uint64_t place = 0;  // in the order of asking
  };

  // What has happened when an event has passed.
  struct History {
    uint64_t compute_place = 0;           // compute up to there
    std::unordered_set<uint64_t> copies;  // ends that were pending when it was recorded
  };

  using Queue = std::deque<ComputeItem>;

  void enqueue(Compute compute, device::Event after, device::Event mark);
  void check_allocated(const Compute& compute);
  void check_launch(const Compute& compute);
  bool is_used_elsewhere(const Bytes& bytes) const;
  void check_known(device::Event event);
  void check_copy(Copy& copy);
  void tear_if(bool is_changed, Copy& copy);
  History history_of(device::Event event) const;
  device::Event new_event(History history);
  bool passed(device::Event event) const { return event.id == 0 || passed_.count(event.id) > 0; }
  void pass(device::Event event);
  void note(const std::string& violation) { violations_.push_back(violation); }
  Result<device::Event> queue_copy(Copy copy);
  bool step_locked();
  void advance(Queue& queue);
  void begin_copy(Copy& copy);
  void end_copy(std::list<Copy>::iterator copy);

  const FakeAsyncOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::unique_ptr<FakeMemory> memory_;
  Queue compute_;
  std::map<void*, Queue> elsewhere_;  // by stream
  std::list<Copy> copies_;
  std::unordered_set<uint64_t> passed_;
  std::unordered_set<uint64_t> failed_;
  std::unordered_map<uint64_t, History> histories_;  // of events that have not passed
  std::unordered_set<uint64_t> awaited_;  // ends of pending copies that compute waits for
  std::vector<Bytes> pinned_;
  uint64_t last_event_ = 0;
  uint64_t last_place_ = 0;
  int64_t copy_count_ = 0;
  int64_t torn_count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace teraio::testing
