// What happens to the bytes when a drive misbehaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "storage/store_session.h"
#include "testing/memory_store.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::PageMemory;
using ::testing::StartsWith;
using testing::StoreSession;

class FaultsTest : public ::testing::Test {
 protected:
  // Opens a store on two drives in memory. `schedule` applies to requests of the second one.
  void open(testing::FaultSchedule schedule, bool checksum = true) {
    testing::MemoryStoreOptions options;
    options.drives = {{.capacity_bytes = 24 * kMiB}, {.capacity_bytes = 24 * kMiB}};
    options.checksum = checksum;
    options.faults = [schedule](int32_t drive) {
      return drive == 1 ? schedule
                        : [](const io::IoRequest&) { return std::optional<testing::Fault>(); };
    };
    session_ = std::make_unique<StoreSession>(open_memory_store(options, clock_));
  }

  StoreSession& session() { return *session_; }

 private:
  VirtualClock clock_;
  std::unique_ptr<StoreSession> session_;
};

testing::FaultSchedule on_reads(testing::Fault fault) {
  return [fault](const io::IoRequest& request) {
    return request.direction == io::Direction::kRead ? std::optional(fault) : std::nullopt;
  };
}

TEST_F(FaultsTest, AFlippedBitIsFoundAndNamed) {
  open(on_reads({.corrupts = true}));
  session().reserve(4096);
  const Extent extent = session().reserve(8 * kMiB);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(extent.size_bytes);
  const Status status = session().transfer(io::Direction::kRead, extent, memory).status;
  EXPECT_EQ(status.code(), ErrorCode::kCorrupted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("extent of 8388608 bytes at 4096"), HasSubstr("drive memory1"),
                    HasSubstr("1048576 bytes at offset "), HasSubstr("came back different")));
}

TEST_F(FaultsTest, WithoutChecksumsNobodyLooks) {
  open(on_reads({.corrupts = true}), false);
  const Extent extent = session().reserve(8 * kMiB);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(extent.size_bytes);
  EXPECT_TRUE(session().transfer(io::Direction::kRead, extent, memory).status.ok());
  EXPECT_FALSE(memory.holds(1));
}

TEST_F(FaultsTest, AReadErrorLeavesTheOtherDrivesTensorsReadable) {
  open(on_reads({.error_number = EIO}));
  const Extent first = session().reserve(4096);  // on the first drive
  const Extent striped = session().reserve(8 * kMiB);
  ASSERT_TRUE(session().write(first, 1).status.ok());
  ASSERT_TRUE(session().write(striped, 2).status.ok());
  EXPECT_FALSE(session().holds(striped, 2));
  EXPECT_TRUE(session().holds(first, 1));
  const TierCounters counters = session().store().counters();
  EXPECT_EQ(counters.drives[0].error_count, 0);
  EXPECT_GT(counters.drives[1].error_count, 0);
}

TEST_F(FaultsTest, AFailureHasDetailsOfTheRequestAndOfTheTransfer) {
  open(on_reads({.error_number = EIO}));
  const Extent extent = session().reserve(8 * kMiB);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  PageMemory memory(extent.size_bytes);
  const Status status = session().transfer(io::Direction::kRead, extent, memory).status;
  EXPECT_THAT(status.details(), Contains(StartsWith("error: EIO by ")));
  EXPECT_THAT(status.details(), Contains(StartsWith("request: 1048576 bytes at offset ")));
  EXPECT_THAT(status.details(), Contains(StartsWith("transfer: read of 8388608 bytes, ")));
  EXPECT_THAT(status.details(), Contains(EndsWith(" of drive memory1")));
}

}  // namespace
}  // namespace teraio::storage
