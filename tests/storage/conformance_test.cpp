// The contract of TierStore, tested on every backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu_device.h"
#include "io/extent_file.h"
#include "io/thread_io.h"
#include "io/uring_io.h"
#include "storage/host_store.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/fake_cufile/loaded_fake_cufile.h"
#include "testing/memory_store.h"
#include "testing/scratch_directory.h"
#include "testing/stepped_device.h"
#include "testing/test_files.h"

namespace teraio::storage {
namespace {

using ::testing::HasSubstr;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;
using testing::Submitted;

constexpr int64_t kCapacityBytes = 96 * kMiB;

// What a backend needs besides its options.
struct Surroundings {
  ScratchDirectory directory;
  SteadyClock clock;
  VirtualClock virtual_clock;
  std::unique_ptr<device::Device> device;
};

using OpenStore = std::function<Result<std::unique_ptr<TierStore>>(Surroundings&)>;

OpenStore on_drive(IoBackend backend) {
  return [backend](Surroundings& around) {
    SsdStoreOptions options;
    options.capacity_bytes = kCapacityBytes;
    options.backend = backend;
    options.checksum = true;
    options.request_bytes = 256 * kKiB;
    return open_ssd_store({{around.directory.path(), 0, 0}}, options, around.clock);
  };
}

// Opens a store for a device that the CPU cannot address.
OpenStore beside_drive(io::GpuDirect gpu_direct, std::string library) {
  return [=](Surroundings& around) {
    auto device = std::make_unique<testing::SteppedDevice>(testing::SteppedDeviceOptions());
    if (!library.empty()) testing::loaded_fake_cufile(library)->device = device.get();
    around.device = std::move(device);
    SsdStoreOptions options;
    options.capacity_bytes = kCapacityBytes;
    options.device = around.device.get();
    options.gpu_direct = gpu_direct;
    options.checksum = gpu_direct == io::GpuDirect::kOff;
    options.cufile_library = library;
    return open_ssd_store({{around.directory.path(), 0, 0}}, options, around.clock);
  };
}

// Drives of unequal speed and size, simulated by files on the test's drive.
Result<std::unique_ptr<TierStore>> open_unequal_drives(Surroundings& around, bool is_direct) {
  std::vector<DriveSpec> drives;
  for (const double weight : {3.0, 2.0, 1.0}) {
    const int64_t size_bytes = static_cast<int64_t>(weight) * (kCapacityBytes / 6);
    auto file = io::ExtentFile::create(around.directory.path(), {size_bytes, 0, true});
    if (!file.ok()) return file.status();
    DriveSpec drive;
    drive.name = "drive" + std::to_string(drives.size());
    drive.capacity_bytes = size_bytes;
    drive.weight = weight;
    drive.io = std::move(io::make_thread_io(file->fd(), is_direct && file->is_direct(), 8).value());
    drive.file = std::move(*file);
    drives.push_back(std::move(drive));
  }
  StripedStoreOptions options;
  options.queue_depth = 4;
  options.checksum = true;
  return std::unique_ptr<TierStore>(
      std::make_unique<StripedStore>(std::move(drives), options, around.clock));
}

Result<std::unique_ptr<TierStore>> open_memory(Surroundings& around,
                                               const testing::FaultRates& rates) {
  testing::MemoryStoreOptions options;
  options.request_bytes = 64 * kKiB;
  for (const int64_t share : {4, 1, 1}) {
    testing::MemoryDriveOptions drive;
    drive.capacity_bytes = kCapacityBytes / 6 * share;
    drive.rates.read_bytes_per_second *= share;
    options.drives.push_back(drive);
  }
  options.faults = [rates](int32_t drive) { return random_faults(100 + drive, rates); };
  return open_memory_store(options, around.virtual_clock);
}

Result<std::unique_ptr<TierStore>> open_host(Surroundings& around) {
  auto device = device::make_cpu_device(kMiB);
  if (!device.ok()) return device.status();
  around.device = std::move(*device);
  return open_host_store(kCapacityBytes, *around.device, around.clock);
}

struct Backend {
  std::string name;
  OpenStore open;
};

std::vector<Backend> backends() {
  // Faults that a transfer must survive.
  const testing::FaultRates survivable{.passing = 0.1, .partial = 0.2, .late = 0.2};
  return {
      {"uring", on_drive(IoBackend::kUring)},
      {"threads", on_drive(IoBackend::kThreads)},
      {"unequal_drives", [](Surroundings& a) { return open_unequal_drives(a, true); }},
      {"buffered", [](Surroundings& a) { return open_unequal_drives(a, false); }},
      {"memory", [](Surroundings& a) { return open_memory(a, {}); }},
      {"faulty_memory", [=](Surroundings& a) { return open_memory(a, survivable); }},
      {"host", open_host},
      {"staged", beside_drive(io::GpuDirect::kOff, "")},
      {"cufile", beside_drive(io::GpuDirect::kRequired, testing::fake_cufile_library("1150"))},
  };
}

class Conformance : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    auto store = GetParam().open(around_);
    if (!store.ok() && store.status().code() == ErrorCode::kUnsupported)
      GTEST_SKIP() << store.status().message();
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
  }

  StoreSession& session() { return *session_; }
  TierStore& store() { return session_->store(); }

 private:
  Surroundings around_;
  std::unique_ptr<StoreSession> session_;
};

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Conformance, BytesComeBackAtEverySize) {
  const std::vector<int64_t> sizes_bytes = {
      0, 1, 4095, 4096, 4097, kMiB - 1, kMiB + 1, 3 * kMiB, 4 * kMiB, 4 * kMiB + 5, 33 * kMiB + 77};
  std::vector<Extent> extents;
  for (const int64_t size_bytes : sizes_bytes) {
    extents.push_back(session().reserve(size_bytes));
    const Completion written = session().write(extents.back(), extents.size());
    EXPECT_TRUE(written.status.ok()) << written.status.message();
    EXPECT_EQ(written.transferred_bytes, size_bytes);
  }
  for (size_t i = 0; i < extents.size(); ++i) EXPECT_TRUE(session().holds(extents[i], i + 1));
}

TEST_P(Conformance, ExtentsDoNotTouchEachOther) {
  const Extent left = session().reserve(5 * kMiB + 1);
  const Extent middle = session().reserve(5 * kMiB + 1);
  const Extent right = session().reserve(4097);
  for (const auto& [extent, seed] : {std::pair{left, 1}, {middle, 2}, {right, 3}, {middle, 4}})
    ASSERT_TRUE(session().write(extent, seed).status.ok());
  EXPECT_TRUE(session().holds(left, 1));
  EXPECT_TRUE(session().holds(middle, 4));
  EXPECT_TRUE(session().holds(right, 3));
}

TEST_P(Conformance, EveryByteOfTheCapacityCanBeReserved) {
  const int64_t capacity_bytes = store().counters().capacity_bytes;
  EXPECT_GE(capacity_bytes, kCapacityBytes);
  const Extent all = session().reserve(capacity_bytes);
  EXPECT_EQ(store().counters().reserved_bytes, capacity_bytes);
  const Result<Extent> more = store().reserve(1);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code(), ErrorCode::kOutOfSpace);
  store().release(all);
  EXPECT_EQ(store().counters().reserved_bytes, 0);
  EXPECT_EQ(store().counters().reserved_peak_bytes, capacity_bytes);
}

TEST_P(Conformance, ScatteredRoomIsUsable) {
  std::vector<Extent> small;
  while (true) {
    const Result<Extent> extent = store().reserve(kMiB);
    if (!extent.ok()) break;
    small.push_back(*extent);
  }
  for (size_t i = 0; i < small.size(); i += 2) store().release(small[i]);
  const Extent scattered = session().reserve(static_cast<int64_t>(small.size() / 2) * kMiB);
  ASSERT_TRUE(session().write(small[1], 1).status.ok());
  ASSERT_TRUE(session().write(scattered, 2).status.ok());
  EXPECT_TRUE(session().holds(small[1], 1));
  EXPECT_TRUE(session().holds(scattered, 2));
}

TEST_P(Conformance, NegativeSizesAreRefused) {
  const Result<Extent> extent = store().reserve(-1);
  ASSERT_FALSE(extent.ok());
  EXPECT_EQ(extent.status().code(), ErrorCode::kInvalidArgument);
}

TEST_P(Conformance, BadTransfersAreRefusedThroughDone) {
  const Extent extent = session().reserve(8192);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(3 * 4096);
  const std::vector<Transfer> bad = {
      {io::Direction::kRead, extent, memory.data() + 64, Priority::kPlanned, 0, {}},
      {io::Direction::kRead, extent, nullptr, Priority::kPlanned, 0, {}},
      {io::Direction::kRead, Extent{extent.id, 4096}, memory.data(), Priority::kPlanned, 0, {}},
      {io::Direction::kWrite,
       Extent{int64_t{1} << 40, 8192},
       memory.data(),
       Priority::kUrgent,
       0,
       {}},
      {io::Direction::kRead, Extent(), memory.data(), Priority::kPlanned, 0, {}},
  };
  for (const Transfer& transfer : bad) {
    const Completion completion = session().wait(session().submit(transfer));
    EXPECT_EQ(completion.status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(completion.transferred_bytes, 0);
  }
  EXPECT_TRUE(session().holds(extent, 1));
}

TEST_P(Conformance, WhatWasNeverWrittenCannotBeRead) {
  const Extent extent = session().reserve(4096);
  PageMemory memory(4096);
  const Completion completion = session().transfer(io::Direction::kRead, extent, memory);
  EXPECT_EQ(completion.status.code(), ErrorCode::kInvalidArgument);
}

TEST_P(Conformance, ReleasingTwiceIsABrokenInvariant) {
  const Extent extent = session().reserve(4096);
  store().release(extent);
  EXPECT_THROW(store().release(extent), InvariantError);
}

TEST_P(Conformance, CancelSaysTheTruth) {
  std::vector<PageMemory> memory;
  std::vector<Submitted> writes;
  for (int i = 0; i < 24; ++i) {
    memory.emplace_back(2 * kMiB);
    memory.back().fill(i);
    writes.push_back(
        session().submit(io::Direction::kWrite, session().reserve(2 * kMiB), memory[i]));
  }
  for (const Submitted& write : writes) {
    const bool was_cancelled = store().cancel(write.id);
    const Completion completion = session().wait(write);
    EXPECT_EQ(completion.status.code(), was_cancelled ? ErrorCode::kCancelled : ErrorCode::kOk);
    EXPECT_EQ(completion.transferred_bytes, was_cancelled ? 0 : 2 * kMiB);
    EXPECT_FALSE(store().cancel(write.id));
  }
}

TEST_P(Conformance, ClosingEndsEveryTransferOnce) {
  std::vector<PageMemory> memory;
  std::vector<Submitted> writes;
  for (int i = 0; i < 40; ++i) {
    memory.emplace_back(2 * kMiB);
    writes.push_back(
        session().submit(io::Direction::kWrite, session().reserve(2 * kMiB), memory[i]));
  }
  session().close();
  for (const Submitted& write : writes) {
    ASSERT_EQ(session().completions().call_count(write.ticket), 1);
    const Completion completion = session().wait(write);
    const bool is_cancelled = completion.status.code() == ErrorCode::kCancelled;
    EXPECT_TRUE(completion.status.ok() || is_cancelled) << completion.status.message();
  }
}

TEST_P(Conformance, CountersAddUp) {
  const Extent extent = session().reserve(10 * kMiB);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  ASSERT_TRUE(session().holds(extent, 1));
  ASSERT_TRUE(session().holds(extent, 1));
  const TierCounters counters = store().counters();
  EXPECT_EQ(counters.bytes_written, 10 * kMiB);
  EXPECT_EQ(counters.bytes_read, 20 * kMiB);
  int64_t read_bytes = 0;
  for (const DriveCounters& drive : counters.drives) {
    read_bytes += drive.bytes_read;
    EXPECT_FALSE(drive.name.empty());
    EXPECT_FALSE(drive.io_path.empty());
    EXPECT_GE(drive.read_busy_ns, 0);
    EXPECT_EQ(drive.error_count, 0);
  }
  EXPECT_EQ(read_bytes, counters.bytes_read);
}

TEST_P(Conformance, TimesAreInOrder) {
  const Extent extent = session().reserve(kMiB);
  const Completion completion = session().write(extent, 1);
  EXPECT_LE(completion.submit_ns, completion.start_ns);
  EXPECT_LE(completion.start_ns, completion.end_ns);
}

TEST_P(Conformance, PlannedCopiesHaveFixedPlaces) {
  const std::vector<PlannedCopy> copies = {
      {5 * kMiB + 1, 0, 10}, {3 * kMiB, 5, 20}, {9000, 10, 20}};
  ASSERT_TRUE(store().lay_out(copies).ok());
  EXPECT_EQ(store().counters().reserved_bytes, 0);
  std::vector<Extent> first;
  for (int iteration = 0; iteration < 3; ++iteration) {
    std::vector<Extent> extents;
    for (size_t copy = 0; copy < copies.size(); ++copy) {
      if (copy == 2) store().release(extents[0]);  // its time is over, and others use its bytes
      const auto extent = store().reserve_planned(copy);
      ASSERT_TRUE(extent.has_value());
      EXPECT_EQ(extent->size_bytes, copies[copy].size_bytes);
      ASSERT_TRUE(session().write(*extent, 10 * iteration + copy).status.ok());
      extents.push_back(*extent);
    }
    EXPECT_TRUE(session().holds(extents[1], 10 * iteration + 1));
    EXPECT_TRUE(session().holds(extents[2], 10 * iteration + 2));
    store().release(extents[1]);
    store().release(extents[2]);
    if (iteration == 0) first = extents;
    EXPECT_EQ(extents, first);
  }
  EXPECT_EQ(store().counters().displaced_count, 0);
}

TEST_P(Conformance, ThePlansRoomIsNobodyElses) {
  const int64_t capacity_bytes = store().counters().capacity_bytes;
  const PlannedCopy copy{40 * kMiB, 0, 10};
  ASSERT_TRUE(store().lay_out({&copy, 1}).ok());
  EXPECT_EQ(store().counters().laid_out_bytes, 40 * kMiB);
  EXPECT_EQ(store().reserve(capacity_bytes - 40 * kMiB + 1).status().code(),
            ErrorCode::kOutOfSpace);
  const Extent other = session().reserve(capacity_bytes - 40 * kMiB);
  const auto planned = store().reserve_planned(0);
  ASSERT_TRUE(planned.has_value());
  ASSERT_TRUE(session().write(other, 1).status.ok());
  ASSERT_TRUE(session().write(*planned, 2).status.ok());
  EXPECT_TRUE(session().holds(other, 1));
  EXPECT_TRUE(session().holds(*planned, 2));
}

TEST_P(Conformance, APlanThatDoesNotFitIsRefusedInBytes) {
  const int64_t capacity_bytes = store().counters().capacity_bytes;
  const std::vector<PlannedCopy> copies = {{capacity_bytes, 0, 10}, {kMiB, 5, 10}};
  const Status status = store().lay_out(copies);
  EXPECT_EQ(status.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(capacity_bytes + kMiB) + " bytes"));
  EXPECT_EQ(store().reserve_planned(0), std::nullopt);
  EXPECT_TRUE(store().reserve(capacity_bytes).ok()) << "nothing is kept for it";
}

TEST_P(Conformance, ACopyWhosePlaceIsTakenIsToldSo) {
  const std::vector<PlannedCopy> copies = {{kMiB, 0, 10}, {kMiB, 10, 20}};
  ASSERT_TRUE(store().lay_out(copies).ok());
  const auto late = store().reserve_planned(0);
  ASSERT_TRUE(late.has_value());
  ASSERT_TRUE(session().write(*late, 1).status.ok());
  EXPECT_EQ(store().reserve_planned(1), std::nullopt);
  EXPECT_EQ(store().reserve_planned(0), std::nullopt);
  EXPECT_EQ(store().reserve_planned(2), std::nullopt) << "there is no such copy";
  EXPECT_EQ(store().counters().displaced_count, 2);
  EXPECT_TRUE(session().holds(*late, 1));
  store().release(*late);
  EXPECT_TRUE(store().reserve_planned(1).has_value());
}

TEST_P(Conformance, CopiesOutliveTheirLayout) {
  const int64_t capacity_bytes = store().counters().capacity_bytes;
  const std::vector<PlannedCopy> first = {{5 * kMiB, 0, 10}, {3 * kMiB, 0, 10}};
  const std::vector<PlannedCopy> second = {{4 * kMiB, 0, 10}, {7 * kMiB, 0, 10}};
  ASSERT_TRUE(store().lay_out(first).ok());
  const auto old = store().reserve_planned(0);
  ASSERT_TRUE(old.has_value());
  ASSERT_TRUE(session().write(*old, 1).status.ok());
  ASSERT_TRUE(store().lay_out(second).ok());
  const auto young = store().reserve_planned(0);
  ASSERT_TRUE(young.has_value());
  ASSERT_TRUE(session().write(*young, 2).status.ok());
  const Extent rest = session().reserve(capacity_bytes - 16 * kMiB);
  ASSERT_TRUE(session().write(rest, 3).status.ok());
  EXPECT_TRUE(session().holds(*old, 1));
  EXPECT_TRUE(session().holds(*young, 2));
  EXPECT_TRUE(store().lay_out({}).ok());
  EXPECT_TRUE(session().holds(*old, 1));
  for (const Extent& extent : {*old, *young, rest}) store().release(extent);
  EXPECT_EQ(store().counters().reserved_bytes, 0);
  EXPECT_TRUE(store().reserve(capacity_bytes).ok()) << "every byte has been given back";
}

// A write in flight keeps its place until it ends.
TEST_P(Conformance, ALayoutMayChangeWhileTransfersRun) {
  const PlannedCopy copy{24 * kMiB, 0, 10};
  ASSERT_TRUE(store().lay_out({&copy, 1}).ok());
  const auto planned = store().reserve_planned(0);
  ASSERT_TRUE(planned.has_value());
  PageMemory memory(copy.size_bytes);
  memory.fill(7);
  const Submitted write = session().submit(io::Direction::kWrite, *planned, memory);
  ASSERT_TRUE(store().lay_out({&copy, 1}).ok());
  const auto again = store().reserve_planned(0);
  ASSERT_TRUE(again.has_value());
  ASSERT_TRUE(session().write(*again, 8).status.ok());
  EXPECT_TRUE(session().wait(write).status.ok());
  EXPECT_TRUE(session().holds(*planned, 7));
  EXPECT_TRUE(session().holds(*again, 8));
}

TEST_P(Conformance, SixtyFourThreadsAtOnce) {
  constexpr int kThreadCount = 64;
  std::vector<int> failure_counts(kThreadCount, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreadCount; ++thread) {
    threads.emplace_back([this, thread, &failure_counts] {
      for (int round = 0; round < 4; ++round) {
        const Extent extent = session().reserve(40'000 + 4096 * thread + round);
        const uint64_t seed = 1000 * thread + round;
        if (!session().write(extent, seed).status.ok()) ++failure_counts[thread];
        if (!session().holds(extent, seed)) ++failure_counts[thread];
        store().release(extent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(failure_counts.begin(), failure_counts.end(), 0), kThreadCount);
  EXPECT_EQ(store().counters().reserved_bytes, 0);
}

}  // namespace
}  // namespace teraio::storage
