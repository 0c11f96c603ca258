#include "runtime/run_drives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "runtime/fixture/known_drive.h"
#include "testing/captured_log.h"

namespace teraio::runtime {
namespace {

using ::testing::HasSubstr;
using testing::KnownDrive;

bool never() { return false; }

// No file of the process can grow while it lives.
class NoRoomForFiles {
 public:
  NoRoomForFiles() {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none = {0, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoomForFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  const sighandler_t handler_ = signal(SIGXFSZ, SIG_IGN);
};

class RunDrivesTest : public ::testing::Test {
 protected:
  RunDrives measured() {
    Result<RunDrives> drives = measure_drives(options_, never);
    EXPECT_TRUE(drives.ok()) << drives.status().message();
    return drives.ok() ? *drives : RunDrives();
  }

  // The counters of a run that has read from the drive for long enough to learn from it.
  storage::TierCounters loaded(int64_t read_bytes_per_second) {
    storage::DriveCounters drive;
    drive.name = measured().shares.at(0).drive.name + " (" + drive_.directory().string() + ")";
    drive.reads_alone = {static_cast<double>(read_bytes_per_second), 0, 3};
    storage::TierCounters ssd;
    ssd.drives = {drive};
    return ssd;
  }
  int64_t known_read_rate() { return measured().shares.at(0).drive.rates.read_bytes_per_second; }

  KnownDrive drive_;
  RunOptions options_ = drive_.options();
};

TEST_F(RunDrivesTest, ADriveThatHasBeenMeasuredIsNotMeasuredAgain) {
  options_.progress = [](const std::string& line) { FAIL() << line; };
  const RunDrives drives = measured();
  ASSERT_EQ(drives.shares.size(), 1u);
  EXPECT_EQ(drives.shares[0].directory, drive_.directory());
  EXPECT_EQ(drives.shares[0].rank_count, 1);
  EXPECT_EQ(drives.shares[0].drive.rates, KnownDrive::kRates);
  EXPECT_GT(drives.shares[0].drive.capacity_bytes, 0);
  EXPECT_EQ(drives.request_latency_ns, KnownDrive::kLatencyNs);
  ASSERT_EQ(drives.directories.size(), 1u);
  EXPECT_EQ(drives.directories[0].rates, KnownDrive::kRates);
}

TEST_F(RunDrivesTest, WithoutDirectoriesThereIsNoDrive) {
  options_.ssd_directories.clear();
  EXPECT_TRUE(measured().directories.empty());
  EXPECT_TRUE(measured().shares.empty());
}

TEST_F(RunDrivesTest, TwoDirectoriesOfOneDriveAreOneShare) {
  const std::filesystem::path second = drive_.directory() / "second";
  std::filesystem::create_directory(second);
  options_.ssd_directories.push_back(second);
  EXPECT_EQ(measured().shares.size(), 1u);
  EXPECT_EQ(measured().directories.size(), 2u) << "the store tells the user";
}

TEST_F(RunDrivesTest, RanksThatUseOneDriveShareIt) {
  const int64_t whole_bytes = measured().shares.at(0).drive.capacity_bytes;
  options_.rank_directories.assign(4, options_.ssd_directories);
  const DriveShare share = measured().shares.at(0);
  EXPECT_EQ(share.rank_count, 4);
  EXPECT_EQ(share.drive.rates.read_bytes_per_second, KnownDrive::kRates.read_bytes_per_second / 4);
  EXPECT_LT(share.drive.capacity_bytes, whole_bytes / 3);
}

TEST_F(RunDrivesTest, ADirectoryThatDoesNotExistIsNamed) {
  options_.ssd_directories.push_back(drive_.directory() / "absent");
  const Result<RunDrives> refused = measure_drives(options_, never);
  EXPECT_EQ(refused.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(refused.status().message(), HasSubstr("absent"));
}

TEST_F(RunDrivesTest, AMeasurementCanBeInterrupted) {
  options_.cache_directory = drive_.cache() / "empty";
  const Result<RunDrives> interrupted = measure_drives(options_, [] { return true; });
  EXPECT_EQ(interrupted.status().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(std::filesystem::is_empty(drive_.directory()));
}

TEST_F(RunDrivesTest, LaterRunsPlanWithWhatARunHasLearned) {
  keep_learned_rates(options_, measured().shares, loaded(300'000'000));
  EXPECT_EQ(known_read_rate(), 300'000'000);
}

TEST_F(RunDrivesTest, ARunThatHasLoadedNoDriveTeachesNothing) {
  storage::TierCounters ssd = loaded(300'000'000);
  ssd.drives[0].reads_alone.sample_count = 0;
  keep_learned_rates(options_, measured().shares, ssd);
  keep_learned_rates(options_, measured().shares, storage::TierCounters());
  EXPECT_EQ(known_read_rate(), KnownDrive::kRates.read_bytes_per_second);
}

TEST_F(RunDrivesTest, APartOfADriveDoesNotTellHowFastItIs) {
  const storage::TierCounters ssd = loaded(300'000'000);
  options_.rank_directories.assign(2, options_.ssd_directories);
  keep_learned_rates(options_, measured().shares, ssd);
  options_.rank_directories.clear();
  EXPECT_EQ(known_read_rate(), KnownDrive::kRates.read_bytes_per_second);
}

TEST_F(RunDrivesTest, ChecksumsHideHowFastADriveIs) {
  options_.checksum = true;
  keep_learned_rates(options_, measured().shares, loaded(300'000'000));
  EXPECT_EQ(known_read_rate(), KnownDrive::kRates.read_bytes_per_second);
}

TEST_F(RunDrivesTest, RatesThatCannotBeKeptAreToldAndTheRunIsNot) {
  const std::vector<DriveShare> shares = measured().shares;
  const storage::TierCounters ssd = loaded(300'000'000);
  const testing::CapturedLog log;
  {
    const NoRoomForFiles no_room;
    keep_learned_rates(options_, shares, ssd);
  }
  EXPECT_THAT(log.text(), HasSubstr("the rates of a drive cannot be kept"));
  EXPECT_EQ(known_read_rate(), KnownDrive::kRates.read_bytes_per_second);
}

TEST_F(RunDrivesTest, AMachineHasTheRatesThatItsDrivesReached) {
  hardware::Hardware hardware;
  hardware.drives = {measured().shares.at(0).drive};
  const Rates before = hardware.drives[0].rates;
  const storage::TierCounters ssd = loaded(before.read_bytes_per_second * 2);
  const Rates after = with_reached_rates(hardware, ssd).drives[0].rates;
  EXPECT_EQ(after.read_bytes_per_second, before.read_bytes_per_second * 2);
  EXPECT_EQ(after.write_bytes_per_second, before.write_bytes_per_second)
      << "the run has not shown this";
  EXPECT_EQ(with_reached_rates(hardware, {}), hardware);
}

}  // namespace
}  // namespace teraio::runtime
