// A drive whose sectors really fail: the errors come from the block layer.
#include "testing/failing_drive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using testing::FailingDrive;
using ::testing::HasSubstr;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

class FailingDriveTest : public ::testing::TestWithParam<IoBackend> {
 protected:
  // Skips the test if such a drive is impossible here.
  void open(const std::string& failures) {
    drive_ = std::make_unique<FailingDrive>(directory_.path(), failures);
    if (!drive_->why_not().empty()) GTEST_SKIP() << drive_->why_not();
    SsdStoreOptions options;
    options.capacity_bytes = 64 * kMiB;
    options.backend = GetParam();
    options.checksum = true;
    auto store = open_ssd_store({{drive_->path(), 0, 0}}, options, clock_);
    if (store.status().code() == ErrorCode::kUnsupported) GTEST_SKIP() << store.status().message();
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
  }

  std::vector<Extent> written(int count) {
    std::vector<Extent> extents;
    for (int seed = 0; seed < count; ++seed) {
      extents.push_back(session().reserve(3 * kMiB + seed));
      EXPECT_TRUE(session().write(extents.back(), seed).status.ok());
    }
    return extents;
  }

  Status read(const Extent& extent) {
    PageMemory memory(extent.size_bytes);
    return session().transfer(io::Direction::kRead, extent, memory).status;
  }

  void expect_clear(const Status& status) {
    EXPECT_EQ(status.code(), ErrorCode::kIoError) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(drive_->path().string()), HasSubstr("at offset "),
                                        HasSubstr("Input/output error")));
  }

  FailingDrive& drive() { return *drive_; }
  StoreSession& session() { return *session_; }

 private:
  ScratchDirectory directory_;
  SteadyClock clock_;
  std::unique_ptr<FailingDrive> drive_;
  std::unique_ptr<StoreSession> session_;  // closes before its drive is destroyed
};

INSTANTIATE_TEST_SUITE_P(Backends, FailingDriveTest,
                         ::testing::Values(IoBackend::kUring, IoBackend::kThreads),
                         [](const auto& info) {
                           return info.param == IoBackend::kUring ? "uring" : "threads";
                         });

TEST_P(FailingDriveTest, ReadsThatFailAreClearErrorsAndTheBytesAreThereLater) {
  open("error-pread=EIO error-pread-rate=100%");
  if (IsSkipped()) return;
  const std::vector<Extent> extents = written(6);
  drive().fail();
  for (const Extent& extent : extents) expect_clear(read(extent));
  drive().recover();
  for (size_t seed = 0; seed < extents.size(); ++seed)
    EXPECT_TRUE(session().holds(extents[seed], seed));
}

TEST_P(FailingDriveTest, SomeReadsFailAndNoneBringsAWrongByte) {
  open("error-pread=EIO error-pread-rate=20%");
  if (IsSkipped()) return;
  const std::vector<Extent> extents = written(6);
  drive().fail();
  int failures = 0;
  for (int round = 0; round < 10; ++round) {
    for (size_t seed = 0; seed < extents.size(); ++seed) {
      PageMemory memory(extents[seed].size_bytes);
      const Status status = session().transfer(io::Direction::kRead, extents[seed], memory).status;
      if (status.ok()) {
        EXPECT_TRUE(memory.holds(seed));
      } else {
        expect_clear(status);
        ++failures;
      }
    }
  }
  EXPECT_GT(failures, 0);
  EXPECT_GE(session().store().counters().drives[0].error_count, failures);
}

TEST_P(FailingDriveTest, WritesThatFailLeaveTheOtherTensorsReadable) {
  open("error-pwrite=EIO error-pwrite-rate=100%");
  if (IsSkipped()) return;
  const std::vector<Extent> extents = written(4);
  const Extent lost = session().reserve(2 * kMiB);
  drive().fail();
  expect_clear(session().write(lost, 9).status);
  EXPECT_EQ(read(lost).code(), ErrorCode::kInvalidArgument) << "it holds nothing";
  for (size_t seed = 0; seed < extents.size(); ++seed)
    EXPECT_TRUE(session().holds(extents[seed], seed));
}

}  // namespace
}  // namespace teraio::storage
