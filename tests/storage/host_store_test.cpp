#include "storage/host_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <limits>
#include <vector>

#include "base/units.h"
#include "device/cpu_device.h"
#include "testing/gated_device.h"
#include "testing/resident_memory.h"
#include "testing/stepped_device.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A pool, and a device with blocks to move.
class HostStoreTest : public ::testing::Test {
 protected:
  void open(int64_t limit_bytes) {
    device_ = std::move(*device::make_cpu_device(int64_t{1} << 40));
    auto store = open_host_store(limit_bytes, *device_, clock_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(*store);
  }

  std::byte* block(int64_t size_bytes, int value = 0) {
    std::byte* memory =
        device_->allocate(align_up(std::max<int64_t>(size_bytes, 1), device::kPageBytes));
    std::memset(memory, value, size_bytes);
    return memory;
  }

  Status write(Extent extent, std::byte* memory) {
    std::promise<Status> end;
    Transfer transfer;
    transfer.direction = io::Direction::kWrite;
    transfer.extent = extent;
    transfer.memory = memory;
    transfer.done = [&](const Completion& completion) { end.set_value(completion.status); };
    store_->submit(std::move(transfer));
    return end.get_future().get();
  }

  SteadyClock clock_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<TierStore> store_;
};

TEST_F(HostStoreTest, TheLimitIsHard) {
  open(10 * kMiB + 4095);
  EXPECT_TRUE(store_->reserve(6 * kMiB).ok());
  EXPECT_EQ(store_->reserve(4 * kMiB + 1).status().code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(store_->reserve(4 * kMiB).ok());
  EXPECT_EQ(store_->reserve(1).status().code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(store_->counters().reserved_bytes, 10 * kMiB);
}

TEST_F(HostStoreTest, NoLimitToSpeakOfIsAnError) {
  device_ = std::move(*device::make_cpu_device(kMiB));
  for (const int64_t limit_bytes : {0L, -1L, 4095L})
    EXPECT_EQ(open_host_store(limit_bytes, *device_, clock_).status().code(),
              ErrorCode::kInvalidArgument);
  EXPECT_EQ(open_host_store(std::numeric_limits<int64_t>::max(), *device_, clock_).status().code(),
            ErrorCode::kOutOfMemory);
}

TEST_F(HostStoreTest, HoldsNoMoreMemoryThanItsLimit) {
  open(32 * kMiB);
  std::byte* memory = block(8 * kMiB, 1);
  const int64_t start_bytes = testing::resident_bytes();
  for (int round = 0; round < 10; ++round) {
    const Extent extent = *store_->reserve(8 * kMiB);
    ASSERT_TRUE(write(extent, memory).ok());
    if (round < 3) continue;
    EXPECT_LE(testing::resident_bytes(), start_bytes + 33 * kMiB);
    store_->release(extent);
  }
  EXPECT_GE(testing::resident_bytes(), start_bytes + 30 * kMiB);
}

TEST(HostStoreGateTest, AReadEndsBesideAWriteThatWaitsForCompute) {
  testing::SteppedDevice stepped({});
  testing::GatedDevice device(stepped);
  SteadyClock clock;
  auto store = open_host_store(4 * kMiB, device, clock);
  ASSERT_TRUE(store.ok());
  std::byte* memory = device.allocate(kMiB);
  std::byte* target = device.allocate(kMiB);
  std::promise<Status> ends[3];
  const auto submit = [&](io::Direction direction, Extent extent, std::byte* at, int number) {
    Transfer transfer;
    transfer.direction = direction;
    transfer.extent = extent;
    transfer.memory = at;
    transfer.ready = device.record();
    transfer.done = [&ends, number](const Completion& completion) {
      ends[number].set_value(completion.status);
    };
    (*store)->submit(std::move(transfer));
  };
  const Extent written = *(*store)->reserve(kMiB);
  submit(io::Direction::kWrite, written, memory, 0);
  ASSERT_TRUE(ends[0].get_future().get().ok());
  device.close_gate();
  submit(io::Direction::kWrite, *(*store)->reserve(kMiB), memory, 1);
  submit(io::Direction::kRead, written, target, 2);
  std::future<Status> read = ends[2].get_future();
  EXPECT_EQ(read.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  device.open_gate();
  EXPECT_TRUE(read.get().ok());
  EXPECT_TRUE(ends[1].get_future().get().ok());
  store->reset();
  device.release(memory);
  device.release(target);
}

TEST(HostStoreFailureTest, ACopyThatFailsSaysWhy) {
  testing::SteppedDevice stepped({.failing_copy = 1});
  SteadyClock clock;
  auto store = open_host_store(4 * kMiB, stepped, clock);
  ASSERT_TRUE(store.ok());
  std::byte* memory = stepped.allocate(kMiB);
  std::promise<Status> end;
  Transfer transfer;
  transfer.direction = io::Direction::kWrite;
  transfer.extent = *(*store)->reserve(kMiB);
  transfer.memory = memory;
  transfer.ready = stepped.record();
  transfer.done = [&](const Completion& completion) { end.set_value(completion.status); };
  (*store)->submit(std::move(transfer));
  EXPECT_THAT(end.get_future().get().message(),
              AllOf(HasSubstr("drive host"), HasSubstr("stepped: copy"), Not(HasSubstr("errno"))));
  store->reset();
  stepped.release(memory);
}

// Only the device needs to wait: compute that is ordered after the events sees the bytes.
TEST(HostStoreArrivalTest, AReadSaysThatItsCopiesAreEnqueuedBeforeItHasArrived) {
  constexpr int64_t kSizeBytes = 50 * kMiB;
  testing::SteppedDevice stepped({.progress = testing::Progress::kManual});
  SteadyClock clock;
  auto store = open_host_store(kSizeBytes, stepped, clock);
  ASSERT_TRUE(store.ok());
  std::byte* memory = stepped.allocate(kSizeBytes);
  stepped.launch([&] { std::memset(stepped.bytes(memory), 7, kSizeBytes); });
  std::atomic<int> done_count = 0;
  Transfer transfer;
  transfer.direction = io::Direction::kWrite;
  transfer.extent = *(*store)->reserve(kSizeBytes);
  transfer.memory = memory;
  transfer.ready = stepped.record();
  transfer.done = [&](const Completion& completion) {
    done_count += completion.status.ok() ? 1 : 100;
  };
  (*store)->submit(transfer);
  while (done_count < 1) stepped.step();
  std::promise<std::vector<device::Event>> on_copies_enqueued;
  transfer.direction = io::Direction::kRead;
  transfer.ready = stepped.record();
  transfer.on_copies_enqueued = [&](std::span<const device::Event> events) {
    on_copies_enqueued.set_value({events.begin(), events.end()});
  };
  (*store)->submit(transfer);
  for (const device::Event event :
       on_copies_enqueued.get_future().get()) {  // without a step of the device
    ASSERT_TRUE(stepped.order_after(event).ok());
  }
  EXPECT_EQ(done_count, 1);
  bool is_right = false;
  stepped.launch([&] { is_right = *stepped.bytes(memory + kSizeBytes - 1) == std::byte{7}; });
  while (done_count < 2) stepped.step();
  stepped.run_all();
  EXPECT_TRUE(is_right);
  store->reset();
  stepped.release(memory);
}

}  // namespace
}  // namespace teraio::storage
