// Faults in front of the real backends, over a real file: all sizes and kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "io/extent_file.h"
#include "io/retrying_io.h"
#include "io/thread_io.h"
#include "io/uring_io.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/faulty_io.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ScratchDirectory;
using testing::StoreSession;

constexpr int64_t kRealDriveBytes = 48 * kMiB;
constexpr int32_t kInFlightMax = 8;

struct DriveBackend {
  std::string name;
  bool is_uring = false;
};

class BackendFaults : public ::testing::TestWithParam<DriveBackend> {
 protected:
  // Skips the test if the backend is unavailable.
  void open(testing::FaultSchedule schedule) {
    auto file = io::ExtentFile::create(directory_.path(), {.size_bytes = kRealDriveBytes});
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::vector<DriveSpec> drives(1);
    DriveSpec& drive = drives.front();
    drive.name = "file";
    drive.capacity_bytes = kRealDriveBytes;
    if (GetParam().is_uring) {
      auto io = io::open_uring_io(file->fd(), kInFlightMax);
      if (!io.ok()) GTEST_SKIP() << io.status().message();
      drive.io = std::move(*io);
    } else {
      drive.io = std::move(io::make_thread_io(file->fd(), file->is_direct(), kInFlightMax).value());
    }
    drive.io = make_faulty_io(std::move(drive.io), std::move(schedule));
    drive.file = std::move(*file);
    StripedStoreOptions options;
    options.request_bytes = 256 * kKiB;
    options.queue_depth = kInFlightMax / 2;
    options.checksum = true;
    session_ = std::make_unique<StoreSession>(
        std::make_unique<StripedStore>(std::move(drives), options, clock_));
  }

  void expect_every_size_to_come_back() {
    for (const int64_t size_bytes :
         {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4097}, kMiB + 1, 9 * kMiB + 77}) {
      const Extent extent = session().reserve(size_bytes);
      const Completion written = session().write(extent, 1);
      EXPECT_TRUE(written.status.ok()) << written.status.message();
      EXPECT_EQ(written.transferred_bytes, size_bytes);
      EXPECT_TRUE(session().holds(extent, 1));
    }
  }
  // One transfer fails and reports the cause and the place. The others and the drive continue.
  void expect_one_failure(ErrorCode code, const std::string& cause) {
    const Extent before = session().reserve(kMiB);
    ASSERT_TRUE(session().write(before, 1).status.ok());
    const Extent extent = session().reserve(6 * kMiB);
    const Status status = session().write(extent, 2).status;
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("drive file"), HasSubstr("at offset "), HasSubstr(cause)));
    EXPECT_TRUE(session().holds(before, 1));
    ASSERT_TRUE(session().write(extent, 3).status.ok());
    EXPECT_TRUE(session().holds(extent, 3));
    EXPECT_EQ(session().store().counters().drives[0].error_count, 1);
  }

  StoreSession& session() { return *session_; }

 private:
  SteadyClock clock_;
  ScratchDirectory directory_;
  std::unique_ptr<StoreSession> session_;
};

INSTANTIATE_TEST_SUITE_P(Backends, BackendFaults,
                         ::testing::Values(DriveBackend{"uring", true},
                                           DriveBackend{"threads", false}),
                         [](const auto& info) { return info.param.name; });

// The tenth write request fails with this error.
testing::FaultSchedule tenth_write(int error_number) {
  return [error_number, count = 0](const io::IoRequest& request) mutable {
    const bool fails = request.direction == io::Direction::kWrite && ++count == 10;
    return fails ? std::optional(testing::Fault{.error_number = error_number}) : std::nullopt;
  };
}

TEST_P(BackendFaults, ShortTransfersAtEverySize) {
  open([](const io::IoRequest& request) {
    return testing::Fault{.short_bytes = request.size_bytes / 3};
  });
  if (!IsSkipped()) expect_every_size_to_come_back();
}

TEST_P(BackendFaults, NotReadyNowAndThenAtEverySize) {
  open([count = 0](const io::IoRequest&) mutable {
    const int error_number = ++count % 3 == 0 ? EAGAIN : count % 5 == 0 ? EINTR : 0;
    return testing::Fault{.error_number = error_number};
  });
  if (!IsSkipped()) expect_every_size_to_come_back();
}

TEST_P(BackendFaults, LateResultsAtEverySize) {
  open([count = 0](const io::IoRequest&) mutable {
    return testing::Fault{.overtaken_by = ++count % 6};
  });
  if (!IsSkipped()) expect_every_size_to_come_back();
}

TEST_P(BackendFaults, AnIoErrorInTheMiddle) {
  open(tenth_write(EIO));
  if (!IsSkipped()) expect_one_failure(ErrorCode::kIoError, "Input/output error (errno 5)");
}

TEST_P(BackendFaults, AFullDiskInTheMiddle) {
  open([failed_count = 0](const io::IoRequest& request) mutable {
    const bool fails = request.direction == io::Direction::kWrite &&
                       request.offset_bytes == 2 * kMiB && failed_count < io::kPausesMax + 2;
    failed_count += fails ? 1 : 0;
    return fails ? std::optional(testing::Fault{.error_number = ENOSPC}) : std::nullopt;
  });
  if (!IsSkipped()) expect_one_failure(ErrorCode::kOutOfSpace, "No space left on device");
}

}  // namespace
}  // namespace teraio::storage
