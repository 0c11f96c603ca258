// SteppedDevice: a device without hardware. Its compute and copies happen late and out of order, as
// those of a GPU may.
//
// Work is only queued when it is requested. step() performs one action that is possible now, chosen
// by the seed: the next piece of a stream's work, or the start or end of a copy. Copies overtake
// each other. A copy reads its source at its start, and the bytes arrive at its end; until then its
// target is poisoned. The CPU cannot use its addresses (FakeMemory). The same seed and calls give
// the same run. Threads: any.
//
// It is for tests that step a device, that refuse a copy or let it fail, and that run under a
// sanitizer, which the emulated GPU (cuda_emulation/) cannot. All others run there.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
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
  explicit SteppedDevice(SteppedDeviceOptions options);
  ~SteppedDevice() override;

  // --- for the test ---

  // Corresponds to a kernel launch: `run` is called later, in compute order. Of the device it may
  // call only bytes().
  void launch(std::function<void()> run);
  // The same on another stream, to start after `after`.
  void launch_on(void* stream, std::function<void()> run, device::Event after);
  // Where the CPU finds the bytes at an address of this device. Other addresses are returned
  // unchanged.
  std::byte* bytes(const std::byte* address) const { return memory_->bytes(address); }

  // Returns false if no action is possible.
  bool step();
  void run_all();

  int64_t copies_under_way() const;
  // Blocks until `count` copies have been requested since the start.
  void wait_for_copies(int64_t count);
  int64_t pinned_bytes() const;

  // --- Device ---

  std::string_view name() const override { return "stepped"; }
  bool is_host_addressable() const override { return false; }
  const device::MemoryAccount& account() const override { return memory_->account(); }
  Status move_within(std::byte* to, const std::byte* from, int64_t size_bytes) override;
  Status fill(std::byte* memory, int64_t size_bytes, int value) override;
  device::HostPinning* host_pinning() override { return &pinning_; }
  device::MemorySegments* segments() override { return options_.segments; }

 private:
  class Pinning final : public device::HostPinning {
   public:
    Status pin(std::byte* host, int64_t size_bytes) override;
    void unpin(std::byte* host) override;
    std::byte* allocate(int64_t /*size_bytes*/) override { return nullptr; }
    void free(std::byte* /*host*/) override {}
    int64_t pinned_bytes() const;

   private:
    mutable std::mutex mutex_;
    std::map<const std::byte*, int64_t> sizes_bytes_;
  };

  struct PendingCopy {
    Copy copy;
    device::Event end;
    bool has_begun = false;
    std::vector<std::byte> bytes;  // of the source when it began
  };

  // One of: work, a wait for an event, or an event to pass.
  struct WorkItem {
    std::function<void()> run;
    device::Event after;
    device::Event mark;
  };
  using Work = std::deque<WorkItem>;

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

  bool passed(device::Event event) const { return event.id == 0 || passed_.contains(event.id); }
  void pass(device::Event event);
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
  std::unordered_set<uint64_t> passed_;  // events
  device::Event failed_;
  Pinning pinning_;
  uint64_t last_event_ = 0;
  int64_t copy_count_ = 0;
};

}  // namespace teraio::testing
