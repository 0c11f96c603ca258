// A tier kept busy: what it moves, when the load ends, and what remains afterwards.
#include "probe/load_generator.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "testing/memory_store.h"
#include "testing/page_memory.h"

namespace teraio::probe {
namespace {

using testing::PageMemory;

constexpr int64_t kTransferBytes = 4 * kMiB;
constexpr int64_t kTierBytes = 48 * kMiB;

class LoadGeneratorTest : public ::testing::Test {
 protected:
  void open(std::function<testing::FaultSchedule(int32_t)> faults = {}) {
    testing::MemoryStoreOptions options;
    options.drives.emplace_back();
    options.drives[0].capacity_bytes = kTierBytes;
    options.faults = std::move(faults);
    store_ = open_memory_store(options, clock_);
    load_ = std::make_unique<LoadGenerator>(*store_, kTransferBytes, memory());
  }

  LoadMemory memory() {
    LoadMemory memory;
    for (auto& lanes : memory) lanes.assign(kLoadTransfersAtOnce, memory_.data());
    return memory;
  }

  // Runs until this many bytes have moved in both directions together.
  Status move(bool reads, bool writes, int64_t bytes) {
    return load_->keep_busy(reads, writes, [&](const LoadProgress& progress) {
      last_ = progress;
      return progress.bytes_read + progress.bytes_written >= bytes;
    });
  }

  PageMemory memory_{kTransferBytes};
  VirtualClock clock_;
  std::unique_ptr<storage::TierStore> store_;
  std::unique_ptr<LoadGenerator> load_;
  LoadProgress last_;
};

TEST_F(LoadGeneratorTest, FillsWhatItTakesAndGivesItBack) {
  open();
  ASSERT_TRUE(load_->fill(kTierBytes).ok());
  EXPECT_EQ(store_->counters().bytes_written, kTierBytes);
  EXPECT_EQ(store_->counters().reserved_bytes, kTierBytes);
  load_.reset();
  EXPECT_EQ(store_->counters().reserved_bytes, 0);
}

TEST_F(LoadGeneratorTest, MovesTheChosenDirectionsUntilItIsOver) {
  open();
  ASSERT_TRUE(load_->fill(LoadGenerator::least_bytes(kTransferBytes)).ok());
  ASSERT_TRUE(move(true, false, 100 * kMiB).ok());
  EXPECT_GE(last_.bytes_read, 100 * kMiB);
  EXPECT_LE(last_.bytes_read, 100 * kMiB + 4 * kTransferBytes);
  EXPECT_EQ(last_.bytes_written, 0);
  ASSERT_TRUE(move(false, true, 100 * kMiB).ok());
  EXPECT_GE(last_.bytes_written, 100 * kMiB);
  EXPECT_EQ(last_.bytes_read, 0);
  ASSERT_TRUE(move(true, true, 100 * kMiB).ok());
  EXPECT_GT(last_.bytes_written, 0);
  EXPECT_GT(last_.bytes_read, 0);
}

TEST_F(LoadGeneratorTest, RatesAreOfTheTimeThatPassed) {
  open();
  ASSERT_TRUE(load_->fill(kTierBytes).ok());
  const Result<LoadRates> rates = load_->run(true, false, 1'000'000);
  ASSERT_TRUE(rates.ok());
  EXPECT_GT(rates->read, 0);
  EXPECT_EQ(rates->write, 0);
}

TEST_F(LoadGeneratorTest, AFailureEndsItAndNothingStaysUnderWay) {
  open([](int32_t) {
    return [](const io::IoRequest& request) -> std::optional<testing::Fault> {
      if (request.direction == io::Direction::kWrite) return std::nullopt;
      return testing::Fault{.error_number = EIO};
    };
  });
  ASSERT_TRUE(load_->fill(kTierBytes).ok());
  const Status status = move(true, true, 100 * kMiB);
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  load_.reset();
  EXPECT_EQ(store_->counters().reserved_bytes, 0) << "all of it could be released";
}

TEST_F(LoadGeneratorTest, AStoreThatIsTooSmallIsAFailure) {
  open();
  EXPECT_EQ(load_->fill(2 * kTierBytes).code(), ErrorCode::kOutOfSpace);
}

}  // namespace
}  // namespace teraio::probe
