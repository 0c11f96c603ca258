// GPUDirect Storage, with a stand-in for cuFile: what moves directly, what is staged, and how that
// is reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "base/clock.h"
#include "io/cufile_io.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/fake_cufile/loaded_fake_cufile.h"
#include "testing/scratch_directory.h"
#include "testing/stepped_device.h"
#include "testing/test_files.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using testing::FakeCufile;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

class GpuDirectTest : public ::testing::Test {
 protected:
  void SetUp() override { use_version("1150"); }
  void TearDown() override { *fake_ = FakeCufile(); }

  void use_version(const std::string& version) {
    options_.cufile_library = testing::fake_cufile_library(version);
    fake_ = testing::loaded_fake_cufile(options_.cufile_library);
    ASSERT_NE(fake_, nullptr);
    *fake_ = FakeCufile();
    fake_->device = &device_;
  }

  Result<std::unique_ptr<TierStore>> try_open() {
    options_.capacity_bytes = 24 * kMiB;
    options_.device = &device_;
    return open_ssd_store({{directory_.path(), 0, 0}}, options_, clock_);
  }

  void open() {
    auto store = try_open();
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
  }

  // Returns the reason why the store uses staging. Its bytes are correct in any case.
  std::string why_staged() {
    open();
    if (session_ == nullptr) return "does not open";
    const Extent extent = session().reserve(3 * kMiB + 5);
    EXPECT_TRUE(session().write(extent, 1).status.ok());
    EXPECT_TRUE(session().holds(extent, 1));
    EXPECT_EQ(drive().gpu_direct_bytes_read, 0);
    EXPECT_EQ(drive().gpu_direct_bytes_written, 0);
    EXPECT_EQ(fake_->compat_count, 0) << "compatibility mode is never used";
    return drive().gpu_direct_off;
  }

  FakeCufile& fake() { return *fake_; }
  StoreSession& session() { return *session_; }
  DriveCounters drive() { return session().store().counters().drives[0]; }

  FakeCufile* fake_ = nullptr;
  SsdStoreOptions options_;
  ScratchDirectory directory_;
  SteadyClock clock_;
  testing::SteppedDevice device_{{}};
  std::unique_ptr<StoreSession> session_;
};

TEST_F(GpuDirectTest, BytesGoDirectlyAndAreCounted) {
  open();
  const Extent extent = session().reserve(5 * kMiB + 77);
  ASSERT_TRUE(session().write(extent, 1).status.ok());
  EXPECT_TRUE(session().holds(extent, 1));
  EXPECT_EQ(drive().gpu_direct_bytes_written, 5 * kMiB + 77);
  EXPECT_EQ(drive().gpu_direct_bytes_read, 5 * kMiB + 77);
  EXPECT_EQ(drive().bytes_read, drive().gpu_direct_bytes_read);
  EXPECT_EQ(drive().gpu_direct_off, "");
  EXPECT_THAT(drive().io_path, HasSubstr("GPUDirect Storage"));
  EXPECT_GT(fake().call_count, 10);
  EXPECT_EQ(fake().misaligned_count, 0);
  EXPECT_EQ(fake().compat_count, 0);
}

TEST_F(GpuDirectTest, TheFileHasNoNameOnceOpen) {
  open();
  EXPECT_TRUE(directory_.is_empty());
  EXPECT_EQ(fake().handle_count, 1);
}

TEST_F(GpuDirectTest, EverythingIsClosedWithTheLastUser) {
  open();
  auto other = try_open();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(fake().driver_open_count, 1);
  session().close();
  EXPECT_EQ(fake().handle_count, 1);
  EXPECT_EQ(fake().driver_close_count, 0);
  other->reset();
  EXPECT_EQ(fake().handle_count, 0);
  EXPECT_EQ(fake().driver_close_count, 1);
}

TEST_F(GpuDirectTest, ALibraryIsCheckedWithoutAStore) {
  EXPECT_TRUE(io::check_cufile(options_.cufile_library).ok());
  EXPECT_EQ(fake().driver_open_count, 1);
  EXPECT_EQ(fake().driver_close_count, 1);
  fake().keeps_compat_mode = true;
  const Status strict = io::check_cufile(options_.cufile_library);
  EXPECT_EQ(strict.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(strict.message(), HasSubstr("compatibility mode"));
}

TEST_F(GpuDirectTest, WithoutALibraryItIsStaged) {
  options_.cufile_library = directory_.path() / "libcufile.so.0";
  EXPECT_THAT(why_staged(), AllOf(HasSubstr("cannot be loaded"), HasSubstr("libcufile.so.0")));
}

TEST_F(GpuDirectTest, ALibraryThatLacksFunctionsIsNotUsed) {
  options_.cufile_library = testing::fake_cufile_library("0");
  EXPECT_THAT(why_staged(), HasSubstr("lacks a function"));
}

TEST_F(GpuDirectTest, ADriverThatDoesNotOpenIsNamed) {
  fake().driver_open_error = 5001;
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(why_staged(), AllOf(HasSubstr("driver cannot be opened"), HasSubstr("5001")));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), Not(HasSubstr("initialization failed")));
  EXPECT_TRUE(fake().is_compat_allowed) << "as before, for the program's own use of cuFile";
}

TEST_F(GpuDirectTest, AFileThatHasNoDirectWayIsStagedAndNotServedInCompatMode) {
  fake().has_direct_path = false;
  EXPECT_THAT(why_staged(), AllOf(HasSubstr("cannot be registered"), HasSubstr("5008")));
  EXPECT_EQ(fake().driver_close_count, 1);
}

TEST_F(GpuDirectTest, CompatModeThatCannotBeForbiddenIsNotUsed) {
  fake().keeps_compat_mode = true;
  EXPECT_THAT(why_staged(), HasSubstr("CUFILE_ALLOW_COMPAT_MODE=false"));
}

TEST_F(GpuDirectTest, ForcedCompatModeIsNotUsed) {
  fake().is_compat_forced = true;
  EXPECT_THAT(why_staged(), HasSubstr("compatibility mode"));
}

TEST_F(GpuDirectTest, ADriverThatSomebodyElseOpenedMayAllowCompatMode) {
  fake().is_driver_open_already = true;
  EXPECT_THAT(why_staged(), HasSubstr("compatibility mode"));
  EXPECT_EQ(fake().driver_close_count, 0) << "it is not ours to close";
}

TEST_F(GpuDirectTest, AnOldVersionIsUsedWhenItsConfigurationIsStrict) {
  use_version("1070");
  open();
  EXPECT_EQ(drive().gpu_direct_off, "");
}

TEST_F(GpuDirectTest, AnOldVersionWithCompatModeIsNotUsed) {
  use_version("1070");
  fake().keeps_compat_mode = true;
  EXPECT_THAT(why_staged(), HasSubstr("allow_compat_mode"));
}

TEST_F(GpuDirectTest, TheFirstBytesHaveToComeBack) {
  fake().corrupts_reads = true;
  EXPECT_THAT(why_staged(), HasSubstr("came back different"));
}

TEST_F(GpuDirectTest, AFirstWriteThatFailsIsNoDirectWay) {
  fake().failing_from = 1;
  fake().failure_result = -5016;
  EXPECT_THAT(why_staged(), HasSubstr("the first write of 1048576 bytes gave -5016"));
}

TEST_F(GpuDirectTest, SwitchedOffMeansStaged) {
  options_.gpu_direct = io::GpuDirect::kOff;
  EXPECT_THAT(why_staged(), HasSubstr("switched off"));
  EXPECT_EQ(fake().driver_open_count, 0);
}

TEST_F(GpuDirectTest, ChecksumsNeedHostMemory) {
  options_.checksum = true;
  EXPECT_THAT(why_staged(), HasSubstr("checksums"));
}

TEST_F(GpuDirectTest, WhoInsistsGetsTheReasonAsAnError) {
  fake().has_direct_path = false;
  options_.gpu_direct = io::GpuDirect::kRequired;
  const auto store = try_open();
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(store.status().message(), AllOf(HasSubstr("drive "), HasSubstr("5008")));
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(GpuDirectTest, ShortTransfersAreResumed) {
  open();
  fake().short_bytes = 25 * 4096;
  const Extent extent = session().reserve(3 * kMiB);
  ASSERT_TRUE(session().write(extent, 2).status.ok());
  EXPECT_TRUE(session().holds(extent, 2));
  EXPECT_EQ(drive().gpu_direct_off, "");
}

struct Failure {
  const char* name;
  int64_t result;
  int error_number;
  const char* text;
};

void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

class FailingUnderWay : public GpuDirectTest, public ::testing::WithParamInterface<Failure> {};

INSTANTIATE_TEST_SUITE_P(Failures, FailingUnderWay,
                         ::testing::Values(Failure{"errno", -1, EIO, "Input/output error"},
                                           Failure{"code", -5030, 0, "cuFile error 5030"},
                                           Failure{"code_in_errno", -1, 5011, "cuFile error 5011"},
                                           Failure{"nothing_moved", 0, 0, "no byte was moved"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(FailingUnderWay, IsRepeatedThroughHostMemoryAndNotTrustedAgain) {
  open();
  const Extent extent = session().reserve(12 * kMiB);
  ASSERT_TRUE(session().write(extent, 3).status.ok());
  fake().failing_from = fake().call_count + 4;
  fake().failing_count = 2;
  fake().failure_result = GetParam().result;
  fake().failure_errno = GetParam().error_number;
  EXPECT_TRUE(session().holds(extent, 3));
  EXPECT_THAT(drive().gpu_direct_off, HasSubstr(GetParam().text));
  EXPECT_LT(drive().gpu_direct_bytes_read, 12 * kMiB);
  EXPECT_EQ(drive().bytes_read, 12 * kMiB);
  EXPECT_EQ(drive().error_count, 0) << "no transfer has failed";
  const int64_t direct_calls = fake().call_count;
  EXPECT_TRUE(session().holds(extent, 3));
  EXPECT_EQ(fake().call_count, direct_calls);
}

TEST_F(GpuDirectTest, NothingHappensBeforeTheDeviceIsThere) {
  open();
  const Extent extent = session().reserve(kMiB);
  PageMemory memory(extent.size_bytes);
  device_.launch([&] { memory.fill(9); });
  Transfer transfer{io::Direction::kWrite, extent, memory.data(), Priority::kPlanned, 0, {}, {}};
  transfer.ready = device_.record();
  ASSERT_TRUE(session().wait(session().submit(transfer)).status.ok());
  EXPECT_TRUE(session().holds(extent, 9));
}

}  // namespace
}  // namespace teraio::storage
