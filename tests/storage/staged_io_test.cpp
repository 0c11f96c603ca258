// Staging through host memory for a device that the CPU cannot address.
#include "io/staged_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "io/device_path.h"
#include "io/retrying_io.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/faulty_io.h"
#include "testing/gated_io.h"
#include "testing/memory_io.h"
#include "testing/stepped_device.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using testing::Gate;
using testing::GatedIo;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PageMemory;
using ::testing::SizeIs;
using testing::StoreSession;
using testing::Submitted;

constexpr int32_t kDepth = 2;
constexpr int64_t kStagedRequestBytes = 64 * kKiB;

class StagedIoTest : public ::testing::Test {
 protected:
  void make_device(testing::SteppedDeviceOptions options) {
    device_ = std::make_unique<testing::SteppedDevice>(options);
  }

  void open(std::unique_ptr<io::DriveIo> drive, bool checksum = true) {
    if (device_ == nullptr) make_device({});
    io::DevicePathOptions options;
    options.clock = &clock_;
    options.drive_name = "staged0";
    options.request_bytes = kStagedRequestBytes;
    options.in_flight_max = 2 * kDepth;
    options.gpu_direct = io::GpuDirect::kOff;
    Result<io::DevicePath> path = open_device_path(std::move(drive), *device_, options);
    ASSERT_TRUE(path.ok()) << path.status().message();
    std::vector<DriveSpec> drives(1);
    drives[0].name = "staged0";
    drives[0].capacity_bytes = 16 * kMiB;
    drives[0].chunk_io = std::move(path->io);
    drives[0].gpu_direct_off = path->gpu_direct_off;
    drives[0].staging_bytes = path->staging_bytes;
    StripedStoreOptions store_options;
    store_options.request_bytes = kStagedRequestBytes;
    store_options.queue_depth = kDepth;
    store_options.checksum = checksum;
    session_ = std::make_unique<StoreSession>(
        std::make_unique<StripedStore>(std::move(drives), store_options, clock_));
  }

  void open_memory(testing::FaultSchedule schedule = {}) {
    auto drive = testing::make_memory_io({.capacity_bytes = 16 * kMiB}, clock_);
    if (schedule) drive = make_faulty_io(std::move(drive), schedule);
    open(std::move(drive));
  }

  testing::SteppedDevice& device() { return *device_; }
  StoreSession& session() { return *session_; }

  VirtualClock clock_;
  std::unique_ptr<testing::SteppedDevice> device_;
  std::unique_ptr<StoreSession> session_;
};

TEST_F(StagedIoTest, TheRingIsPinnedCountedAndGivenBack) {
  open_memory();
  const int64_t ring_bytes = 2 * kDepth * kStagedRequestBytes;
  EXPECT_EQ(device().pinned_bytes(), ring_bytes);
  EXPECT_EQ(session().store().counters().staging_bytes, ring_bytes);
  EXPECT_EQ(session().store().counters().drives[0].io_path, "memory, staged");
  session().close();
  EXPECT_EQ(device().pinned_bytes(), 0);
}

TEST_F(StagedIoTest, DriveFaultsThatPassAreSurvived) {
  open_memory(testing::random_faults(7, {.passing = 0.1, .partial = 0.2, .late = 0.2}));
  std::vector<Extent> extents;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    extents.push_back(session().reserve(300'000 + 4097 * static_cast<int64_t>(seed)));
    ASSERT_TRUE(session().write(extents.back(), seed).status.ok());
  }
  for (uint64_t seed = 0; seed < 12; ++seed) EXPECT_TRUE(session().holds(extents[seed], seed));
}

TEST_F(StagedIoTest, ACorruptedSlotIsFoundBeforeItReachesTheDevice) {
  open_memory([](const io::IoRequest& request) {
    return request.direction == io::Direction::kRead
               ? std::optional(testing::Fault{.corrupts = true})
               : std::nullopt;
  });
  const Extent extent = session().reserve(kMiB);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(extent.size_bytes);
  const Status status = session().transfer(io::Direction::kRead, extent, memory).status;
  EXPECT_EQ(status.code(), ErrorCode::kCorrupted);
}

// Copies 1 to 16 belong to the write, later ones to the read.
class FailingCopy : public StagedIoTest,
                    public ::testing::WithParamInterface<testing::SteppedDeviceOptions> {};

INSTANTIATE_TEST_SUITE_P(Copies, FailingCopy,
                         ::testing::Values(testing::SteppedDeviceOptions{.refused_copy = 3},
                                           testing::SteppedDeviceOptions{.failing_copy = 16},
                                           testing::SteppedDeviceOptions{.refused_copy = 17},
                                           testing::SteppedDeviceOptions{.failing_copy = 20}),
                         [](const auto& info) { return "n" + std::to_string(info.index); });

TEST_P(FailingCopy, FailsItsTransferAndNoOther) {
  make_device(GetParam());
  open_memory();
  const Extent extent = session().reserve(kMiB);
  const Completion written = session().write(extent, 1);
  PageMemory memory(extent.size_bytes);
  const Completion read =
      written.status.ok() ? session().transfer(io::Direction::kRead, extent, memory) : written;
  EXPECT_EQ(read.status.code(), ErrorCode::kIoError);
  EXPECT_THAT(read.status.message(), AllOf(HasSubstr("drive staged0"), HasSubstr("at offset"),
                                           HasSubstr("stepped: copy")));
  ASSERT_TRUE(session().write(extent, 2).status.ok());
  EXPECT_TRUE(session().holds(extent, 2));
}

TEST_F(StagedIoTest, ChunksAreCopiedWhileOthersAreRead) {
  make_device({.progress = testing::Progress::kManual});
  Gate gate;
  open(std::make_unique<GatedIo>(gate), false);  // which stores no bytes
  const Extent extent = session().reserve(8 * kStagedRequestBytes);
  PageMemory memory(extent.size_bytes);
  const Submitted write = session().submit(io::Direction::kWrite, extent, memory);
  device().wait_for_copies(
      kDepth);  // as many chunks as may be in flight are being copied from the device ...
  EXPECT_THAT(gate.begun(), IsEmpty()) << "and nothing is written before it is there";
  gate.open();
  while (session().completions().call_count(write.ticket) == 0) device().step();
  gate.close();
  const Submitted read = session().submit(io::Direction::kRead, extent, memory);
  const std::vector<io::IoRequest> reads = gate.in_flight();
  ASSERT_THAT(reads, SizeIs(kDepth));
  gate.end(reads[0]);
  device().wait_for_copies(8 + 1);
  EXPECT_THAT(gate.in_flight(), SizeIs(kDepth - 1)) << "a slot is being copied, one being read";
  gate.open();
  while (session().completions().call_count(read.ticket) == 0) device().step();
  EXPECT_TRUE(session().wait(read).status.ok());
  session().close();  // before its gate is destroyed
}

// By the seed, a copy would begin before compute is there.
class StagedOrderTest : public StagedIoTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    make_device({.seed = GetParam(), .progress = testing::Progress::kManual});
    open_memory();
  }
  void step_until_done(const Submitted& submitted) {
    while (session().completions().call_count(submitted.ticket) == 0) device().step();
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, StagedOrderTest, ::testing::Range<uint64_t>(1, 9));

TEST_P(StagedOrderTest, CopiesWaitForTheEventOfTheirTransfer) {
  const Extent extent = session().reserve(kStagedRequestBytes);
  PageMemory memory(extent.size_bytes);
  // Queued compute writes the bytes that are to be offloaded.
  device().launch([&] { memory.fill(9); });
  Transfer transfer{io::Direction::kWrite, extent, memory.data(), Priority::kPlanned, 0, {}, {}};
  transfer.ready = device().record();
  const Submitted write = session().submit(transfer);
  device().wait_for_copies(1);  // requested before compute is done
  step_until_done(write);
  step_until_done(session().submit(io::Direction::kRead, extent, memory));
  EXPECT_TRUE(memory.holds(9));
}

TEST_P(StagedOrderTest, ACopyInWaitsForTheLastUseOfTheMemory) {
  const Extent extent = session().reserve(kStagedRequestBytes);
  PageMemory memory(extent.size_bytes);
  memory.fill(5);
  step_until_done(session().submit(io::Direction::kWrite, extent, memory));
  memory.fill(6);
  bool was_used_before = false;
  device().launch([&] { was_used_before = memory.holds(6); });
  Transfer transfer{io::Direction::kRead, extent, memory.data(), Priority::kPlanned, 0, {}, {}};
  transfer.ready = device().record();
  const Submitted read = session().submit(transfer);
  device().wait_for_copies(2);  // requested before compute is done
  step_until_done(read);
  EXPECT_TRUE(was_used_before);
  EXPECT_TRUE(memory.holds(5));
}

// A read of `size_bytes` whose copies the test has not stepped: what it reports when they are
// enqueued.
class StagedArrivalTest : public StagedIoTest {
 protected:
  void write_and_read(int64_t size_bytes) {
    make_device({.progress = testing::Progress::kManual});
    open_memory();
    memory_ = device().allocate(size_bytes);
    device().launch([=, this] { std::memset(device().bytes(memory_), 7, size_bytes); });
    Transfer transfer;
    transfer.direction = io::Direction::kWrite;
    transfer.extent = session().reserve(size_bytes);
    transfer.memory = memory_;
    transfer.ready = device().record();
    const Submitted write = session().submit(transfer);
    while (session().completions().call_count(write.ticket) == 0) device().step();
    transfer.direction = io::Direction::kRead;
    transfer.ready = device().record();
    transfer.on_copies_enqueued = [this](std::span<const device::Event> events) {
      EXPECT_EQ(++told_count_, 1);
      on_copies_enqueued_.set_value({events.begin(), events.end()});
    };
    read_ = session().submit(transfer);
  }
  void step_to_the_end() {
    while (session().completions().call_count(read_.ticket) == 0) device().step();
  }

  std::byte* memory_ = nullptr;
  std::promise<std::vector<device::Event>> on_copies_enqueued_;
  std::atomic<int> told_count_ = 0;
  Submitted read_;
};

TEST_F(StagedArrivalTest, AReadIsEnqueuedWithItsLastCopy) {
  write_and_read(2 *
                 kStagedRequestBytes);  // as much as the ring holds, so no copy has to end first
  const std::vector<device::Event> arrivals =
      on_copies_enqueued_.get_future().get();  // without a step of the device
  EXPECT_THAT(arrivals, SizeIs(2));
  EXPECT_EQ(session().completions().call_count(read_.ticket), 0);
  for (const device::Event event : arrivals) ASSERT_TRUE(device().order_after(event).ok());
  bool is_right = false;
  device().launch(
      [&] { is_right = *device().bytes(memory_ + 2 * kStagedRequestBytes - 1) == std::byte{7}; });
  step_to_the_end();
  device().run_all();
  EXPECT_TRUE(is_right);
}

TEST_F(StagedArrivalTest, WhatIsStillArrivingIsToldOf) {
  write_and_read(3 * kStagedRequestBytes);
  device().wait_for_copies(3 + kDepth);
  // The end of the first copy makes room for the third chunk.
  while (device().copies_under_way() > 1) device().step();
  EXPECT_THAT(on_copies_enqueued_.get_future().get(), SizeIs(2)) << "of the second and the third";
  step_to_the_end();
}

TEST_F(StagedArrivalTest, WhatHasArrivedNeedsNoWaiting) {
  write_and_read(20 * kStagedRequestBytes);
  std::future<std::vector<device::Event>> on_copies_enqueued = on_copies_enqueued_.get_future();
  while (on_copies_enqueued.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    device().step();
  const std::vector<device::Event> arrivals = on_copies_enqueued.get();
  EXPECT_GE(arrivals.size(), 1u);
  EXPECT_LE(arrivals.size(), static_cast<size_t>(2 * kDepth)) << "more than the ring has slots";
  step_to_the_end();
  EXPECT_EQ(told_count_, 1);
}

TEST_F(StagedIoTest, AReadThatFailsOnTheDriveIsNeverEnqueued) {
  open_memory([](const io::IoRequest& request) {
    const bool is_last = request.offset_bytes == 3 * kStagedRequestBytes;
    return request.direction == io::Direction::kRead && is_last
               ? std::optional(testing::Fault{.error_number = EIO})
               : std::nullopt;
  });
  const Extent extent = session().reserve(4 * kStagedRequestBytes);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(extent.size_bytes);
  Transfer transfer{io::Direction::kRead, extent, memory.data(), Priority::kPlanned, 0, {}, {}};
  transfer.on_copies_enqueued = [](std::span<const device::Event>) {
    ADD_FAILURE() << "a chunk is missing";
  };
  EXPECT_EQ(session().wait(session().submit(transfer)).status.code(), ErrorCode::kIoError);
}

}  // namespace
}  // namespace teraio::storage
