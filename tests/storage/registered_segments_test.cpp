// GPUDirect Storage with segments of device memory that are registered with cuFile, for which a
// stand-in is used.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "device/memory_segments.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/fake_cufile/loaded_fake_cufile.h"
#include "testing/scratch_directory.h"
#include "testing/stepped_device.h"
#include "testing/test_files.h"

namespace teraio::storage {
namespace {

using testing::FakeCufile;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

class RegisteredSegmentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    use_version("1150");
    options_.capacity_bytes = 64 * kMiB;
    options_.device = &device_;
  }
  void TearDown() override {
    session_ = nullptr;
    EXPECT_EQ(fake_->memory_count, 0) << "nothing stays registered";
    EXPECT_EQ(fake_->memory_misuse_count, 0);
    *fake_ = FakeCufile();
  }

  void use_version(const std::string& version) {
    options_.cufile_library = testing::fake_cufile_library(version);
    fake_ = testing::loaded_fake_cufile(options_.cufile_library);
    ASSERT_NE(fake_, nullptr);
    *fake_ = FakeCufile();
    fake_->device = &device_;
  }

  void open() {
    auto store = open_ssd_store({{directory_.path(), 0, 0}}, options_, clock_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
    calls_at_open_ = fake_->call_count;
  }

  void write(const Extent& extent, PageMemory& memory, uint64_t seed) {
    memory.fill(seed);
    ASSERT_TRUE(session_->transfer(io::Direction::kWrite, extent, memory).status.ok());
    memory.fill(seed + 1);
  }
  void read(const Extent& extent, PageMemory& memory, uint64_t seed) {
    ASSERT_TRUE(session_->transfer(io::Direction::kRead, extent, memory).status.ok());
    EXPECT_TRUE(memory.holds(seed));
  }
  void round_trip(PageMemory& memory, uint64_t seed) {
    const Extent extent = session_->reserve(memory.size_bytes());
    write(extent, memory, seed);
    read(extent, memory, seed);
    session_->store().release(extent);
  }

  int64_t calls() const { return fake_->call_count - calls_at_open_; }
  DriveCounters drive() { return session_->store().counters().drives[0]; }
  device::SegmentCounters counters() { return session_->store().counters().segments; }

  FakeCufile* fake_ = nullptr;
  SsdStoreOptions options_;
  ScratchDirectory directory_;
  SteadyClock clock_;
  device::MemorySegments segments_;
  testing::SteppedDevice device_{{.segments = &segments_}};
  std::unique_ptr<StoreSession> session_;
  int64_t calls_at_open_ = 0;
};

TEST_F(RegisteredSegmentsTest, ASegmentIsRegisteredOnceForAllItsBlocks) {
  open();
  PageMemory memory(8 * kMiB);
  segments_.add({memory.data(), memory.size_bytes()});
  EXPECT_EQ(fake_->memory_registrations, 0) << "before any I/O";
  round_trip(memory, 1);
  round_trip(memory, 2);
  EXPECT_EQ(fake_->memory_registrations, 1);
  EXPECT_EQ(calls(), 32);
  EXPECT_EQ(fake_->registered_call_count, 32);
  EXPECT_EQ(fake_->misaligned_count, 0);
  EXPECT_EQ(counters().registered_count, 1);
  EXPECT_EQ(counters().registered_bytes, 8 * kMiB);
}

TEST_F(RegisteredSegmentsTest, MemoryOfNoKnownSegmentGoesDirectlyAllTheSame) {
  open();
  PageMemory memory(2 * kMiB);
  round_trip(memory, 3);
  EXPECT_EQ(fake_->memory_registrations, 0);
  EXPECT_EQ(drive().gpu_direct_bytes_read, 2 * kMiB);
  EXPECT_EQ(drive().gpu_direct_off, "");
}

TEST_F(RegisteredSegmentsTest, MemoryAcrossSegmentsMovesInParts) {
  open();
  PageMemory memory(kMiB);
  segments_.add({memory.data() + kMiB / 4, kMiB / 4});
  segments_.add({memory.data() + kMiB / 2, kMiB / 4});
  round_trip(memory, 4);
  EXPECT_EQ(fake_->memory_registrations, 2);
  EXPECT_EQ(calls(), 8) << "two parts of no segment, and one of each";
  EXPECT_EQ(fake_->registered_call_count, 4);
  EXPECT_EQ(drive().gpu_direct_bytes_read, kMiB);
}

TEST_F(RegisteredSegmentsTest, WhatCannotBeRegisteredGoesDirectlyAndIsCounted) {
  open();
  fake_->memory_error = 5036;
  PageMemory memory(4 * kMiB);
  segments_.add({memory.data(), memory.size_bytes()});
  round_trip(memory, 5);
  EXPECT_EQ(fake_->memory_registrations, 1) << "not tried for every chunk";
  EXPECT_EQ(counters().refused_count, 1);
  EXPECT_EQ(counters().registered_count, 0);
  EXPECT_EQ(drive().gpu_direct_bytes_read, 4 * kMiB);
  EXPECT_EQ(drive().gpu_direct_off, "");
}

TEST_F(RegisteredSegmentsTest, ALibraryThatCannotRegisterMemoryIsUsedWithout) {
  use_version("1070");
  open();
  PageMemory memory(2 * kMiB);
  segments_.add({memory.data(), memory.size_bytes()});
  round_trip(memory, 6);
  EXPECT_EQ(counters().refused_count, 1);
  EXPECT_EQ(drive().gpu_direct_off, "");
}

TEST_F(RegisteredSegmentsTest, AStoreThatClosesDeregistersAndTheNextRegistersAnew) {
  open();
  PageMemory memory(2 * kMiB);
  segments_.add({memory.data(), memory.size_bytes()});
  round_trip(memory, 7);
  session_->close();
  EXPECT_EQ(fake_->memory_count, 0);
  EXPECT_EQ(fake_->driver_close_count, 1);
  open();
  round_trip(memory, 8);
  EXPECT_EQ(fake_->memory_registrations, 2);
}

TEST_F(RegisteredSegmentsTest, TheTrialIsDoneInRegisteredMemory) {
  std::byte* block = device_.allocate(kMiB);
  segments_.add({block, 16 * kMiB});  // where the trial's memory will also be
  open();
  device_.release(block);
  EXPECT_EQ(fake_->memory_registrations, 1);
  EXPECT_EQ(fake_->registered_call_count, 2);
  EXPECT_EQ(drive().gpu_direct_off, "");
}

TEST_F(RegisteredSegmentsTest, AStagedStoreRegistersNothing) {
  options_.gpu_direct = io::GpuDirect::kOff;
  open();
  PageMemory memory(2 * kMiB);
  segments_.add({memory.data(), memory.size_bytes()});
  round_trip(memory, 9);
  EXPECT_EQ(fake_->memory_registrations, 0);
}

// Like PyTorch's allocator, removes a segment under a lock that hooks take to allocate, as soon as
// no block in it has I/O, while other segments do.
TEST_F(RegisteredSegmentsTest, SegmentsComeAndGoWhileOthersHaveIo) {
  open();
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    PageMemory memory(3 * kMiB);
    segments_.add({memory.data(), memory.size_bytes()});
    uint64_t seed = 0;
    do round_trip(memory, ++seed);
    while (!is_over);
    segments_.remove(memory.data());
  });
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PageMemory memory(2 * kMiB);
    segments_.add({memory.data(), memory.size_bytes()});
    round_trip(memory, 100 * seed);
    segments_.remove(memory.data());
  }
  is_over = true;
  other.join();
  EXPECT_EQ(fake_->memory_count, 0);
  EXPECT_EQ(fake_->memory_registrations, 21);
}

}  // namespace
}  // namespace teraio::storage
