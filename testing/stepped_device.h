// SteppedDevice: a device without hardware. Its compute and copies happen late and out of order,
// as those of a GPU may, and it detects mistakes that a GPU would hide until they break a training
// run.
//
// Work is only queued when it is requested. step() performs one action that is possible now, chosen
// by the seed: the next piece of compute, or the start or end of a copy. Copies overtake each
// other. The bytes of a copy arrive at its end; until then its target is poisoned. Released memory
// is poisoned when compute that was enqueued before has done with it. The CPU cannot use its
// addresses (FakeMemory).
//
// violations() lists what the Device contract forbids, noted when it is requested, even if it would
// have done no harm this time. The same seed and calls give the same run. Threads: any.
//
// The emulated GPU (cuda_emulation/) needs a CUDA runtime, cannot be stepped by a test, makes no
// copy fail, and shows a mistake only where it changes bytes. Of eleven faults that were put into
// the engine and the tiers, the same tests found nine on both. Only this device showed a tensor
// that left while another stream worked on it, and a stream that did not wait for a read.
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
  kOnWait,  // wait() and has_passed() call step()
  kManual,  // only the test calls step(); wait() blocks until another thread has
};

struct SteppedDeviceOptions {
  int64_t budget_bytes = int64_t{64} << 20;
  uint64_t seed = 1;
  Progress progress = Progress::kOnWait;
  // Copies are numbered from 1; 0 stands for none.
  int64_t refused_copy = 0;  // its request fails
  int64_t failing_copy = 0;  // ends without its bytes; wait() reports the failure
  // The result of segments(). The test acts as their owner.
  device::MemorySegments* segments = nullptr;
};

class SteppedDevice final : public device::Device {
 public:
  struct Bytes {
    const std::byte* begin = nullptr;
    int64_t size_bytes = 0;

    bool overlaps(const Bytes& other) const {
      return begin < other.begin + other.size_bytes && other.begin < begin + size_bytes;
    }
  };

  // Corresponds to a kernel launch: `run` is called later, in compute order. Of the device it may
  // call only bytes().
  struct Compute {
    std::vector<Bytes> reads;
    std::vector<Bytes> writes;
    std::function<void()> run;
  };

  explicit SteppedDevice(SteppedDeviceOptions options);
  ~SteppedDevice() override;

  // --- for the test ---

  void launch(Compute compute);
  // Enqueues work on another stream, to start after `after`. The device does not order its memory
  // with other work, except through record_on(stream) and order_stream_after(stream).
  void launch_on(void* stream, Compute compute, device::Event after);
  // Where the CPU finds the bytes at an address of this device. Other addresses are returned
  // unchanged.
  std::byte* bytes(const std::byte* address) const { return memory_->bytes(address); }

  // Returns false if no action is possible.
  bool step();
  void run_all();

  int64_t copies_waiting() const;
  int64_t copies_under_way() const;
  // Blocks until `count` copies have been requested since the start.
  void wait_for_copies(int64_t count);
  int64_t pinned_bytes() const;
  // The number of copies to the host that do not wait for compute that changes their source,
  // whether it was requested before or after them. Such bytes may no longer be needed, so this is
  // no violation, but their targets stay poisoned.
  int64_t torn_copies() const;
  std::vector<std::string> violations() const;

  // --- Device ---

  std::string_view name() const override { return "fake"; }
  bool is_host_addressable() const override { return false; }
  const device::MemoryAccount& account() const override { return memory_->account(); }
  Status move_within(std::byte* to, const std::byte* from, int64_t size_bytes) override;
  Status fill(std::byte* memory, int64_t size_bytes, int value) override;
  device::HostPinning* host_pinning() override { return &pinning_; }
  device::MemorySegments* segments() override { return options_.segments; }

 private:
  // Notes what is unpinned at the wrong time.
  class Pinning final : public device::HostPinning {
   public:
    explicit Pinning(SteppedDevice& device) : device_(device) {}
    Status pin(std::byte* host, int64_t size_bytes) override;
    void unpin(std::byte* host) override;
    std::byte* allocate(int64_t /*size_bytes*/) override { return nullptr; }
    void free(std::byte* /*host*/) override {}
    const std::vector<Bytes>& pinned() const { return pinned_; }

   private:
    SteppedDevice& device_;
    std::vector<Bytes> pinned_;
  };

  struct PendingCopy : Copy {
    device::Event end{};
    bool has_begun = false;
    bool is_torn = false;
    std::vector<std::byte> seen{};  // the source when the copy started

    Bytes source() const { return {from, size_bytes}; }
    Bytes target() const { return {to, size_bytes}; }
    Bytes device() const { return is_to_host ? source() : target(); }
    bool conflicts_with(const PendingCopy& other) const {
      return target().overlaps(other.target()) || target().overlaps(other.source()) ||
             source().overlaps(other.target());
    }
  };

  using Copies = std::unordered_set<uint64_t>;  // by their ends

  // One of: work, a wait for an event, or an event to pass.
  struct WorkItem {
    Compute compute;
    device::Event after;
    device::Event mark;
    uint64_t place = 0;  // in the order of requests
  };

  // What a stream has been given.
  struct Work {
    std::deque<WorkItem> items;
    Copies awaited;  // the pending ones that what comes next waits for
  };

  // What has happened when an event has passed.
  struct History {
    uint64_t compute_place = 0;  // compute up to this place
    Copies copies;               // those that were pending when it was recorded
  };

  struct Events {
    uint64_t last_id = 0;
    std::unordered_set<uint64_t> passed;
    std::unordered_set<uint64_t> failed;
    std::unordered_map<uint64_t, History> histories;  // of those that have not passed
  };

  std::byte* allocate_block(int64_t size_bytes, device::Effort effort,
                            const device::Tenant& tenant) override;
  void release_block(std::byte* memory) override;
  void change_budget(int64_t budget_bytes) override;
  void count_outside(int64_t size_bytes) override;
  void forget_peaks() override;
  Result<device::Event> record_point(Stream stream) override;
  bool is_past(device::Event event) const override;
  Status wait_for(device::Event event) override;
  Status make_wait(Stream stream, device::Event event) override;
  Result<device::Event> start_copy(const Copy& copy) override;

  void enqueue(Stream stream, Compute compute, device::Event after, device::Event mark);
  void check_allocated(const Compute& compute);
  void check_arrived(const Compute& compute, const Copies& awaited);
  bool is_used_elsewhere(const Bytes& bytes) const;
  void check_known(device::Event event);
  void check_copy(PendingCopy& copy);
  void tear_if(bool is_changed, PendingCopy& copy);
  History history_of(device::Event event) const;
  device::Event new_event(History history);
  bool passed(device::Event event) const {
    return event.id == 0 || events_.passed.contains(event.id);
  }
  void pass(device::Event event);
  void note(const std::string& violation) { violations_.push_back(violation); }
  bool step_locked();
  void advance(Work& work);
  void begin_copy(PendingCopy& copy);
  void end_copy(std::list<PendingCopy>::iterator copy);

  const SteppedDeviceOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::unique_ptr<FakeMemory> memory_;
  std::map<Stream, Work> work_;
  std::list<PendingCopy> copies_;
  Events events_;
  Pinning pinning_{*this};
  uint64_t last_place_ = 0;
  int64_t copy_count_ = 0;
  int64_t torn_count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace teraio::testing
