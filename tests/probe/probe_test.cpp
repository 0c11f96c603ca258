#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "base/units.h"
#include "probe/probe_cache.h"
#include "testing/loop_drive.h"
#include "testing/scratch_directory.h"

namespace teraio::probe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matches;
using testing::ScratchDirectory;

class ProbeTest : public ::testing::Test {
 protected:
  Result<DriveProbe> probe(const std::filesystem::path& path) {
    ProbeOptions options;
    options.sustained.interval_ns = 3'000'000;
    options.sustained.longest_ns = 60'000'000;
    options.file_bytes = 96 * kMiB;
    options.progress = [this](const std::string& line) { lines_.push_back(line); };
    return probe_directory(path, options);
  }

  std::filesystem::path cache() const { return directory_.path() / "cache"; }

  ScratchDirectory directory_;
  std::vector<std::string> lines_;
};

TEST_F(ProbeTest, MeasuresBothDirectionsAndLeavesNothing) {
  const Result<DriveProbe> found = probe(directory_.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_GT(found->rates.read_bytes_per_second, 0);
  EXPECT_GT(found->rates.write_bytes_per_second, 0);
  EXPECT_GT(found->request_latency_ns, 0);
  EXPECT_GT(found->capacity_bytes, 0);
  EXPECT_GE(found->duplex, 1.0);
  EXPECT_LE(found->duplex, 2.0);
  EXPECT_FALSE(found->name.empty());
  EXPECT_TRUE(directory_.is_empty());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("measuring the drive of"), HasSubstr(": write "),
                                  HasSubstr("both at once"), HasSubstr(": read "),
                                  HasSubstr("latency"), HasSubstr("were written to measure")));
  EXPECT_GT(found->written_bytes, 96 * kMiB);
}

TEST_F(ProbeTest, WritesNoMoreThanItIsAllowed) {
  ProbeOptions options;
  options.file_bytes = 96 * kMiB;
  options.sustained.interval_ns = 1'000'000'000;
  options.sustained.most_written_bytes = 64 * kMiB;
  options.sustained.longest_ns = 200'000'000;
  const Result<DriveProbe> found = probe_directory(directory_.path(), options);
  ASSERT_TRUE(found.ok()) << found.status().message();
  // The file, plus twice the limit and what was in flight when it was reached.
  EXPECT_LT(found->written_bytes, (97 + 2 * (64 + 4 * 16)) * kMiB);
}

TEST_F(ProbeTest, AllPhasesTogetherWriteNoMoreThanAnnounced) {
  ProbeOptions options;
  options.file_bytes = 96 * kMiB;
  options.most_written_bytes = 300 * kMiB;
  options.sustained.interval_ns = 1'000'000'000;
  std::vector<double> shares;
  options.on_share = [&](double share) { shares.push_back(share); };
  options.progress = [this](const std::string& line) { lines_.push_back(line); };
  options.sustained.longest_ns = 400'000'000;
  const Result<DriveProbe> found = probe_directory(directory_.path(), options);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_LE(found->written_bytes, 300 * kMiB);
  EXPECT_THAT(lines_.front(), HasSubstr("writes at most 315 MB, takes about 0 to 1 s"));
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GT(shares.front(), 0);
  EXPECT_DOUBLE_EQ(shares.back(), 1);
}

TEST_F(ProbeTest, AShortProbeIsCautiousAndTellsThePeak) {
  const Result<DriveProbe> found = probe(directory_.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->origin, RatesOrigin::kShortProbe);
  const auto reliable = [](int64_t peak) { return static_cast<double>(peak) * 0.75 + 1; };
  EXPECT_LE(static_cast<double>(found->rates.read_bytes_per_second),
            reliable(found->peak_rates.read_bytes_per_second));
  EXPECT_LE(static_cast<double>(found->rates.write_bytes_per_second),
            reliable(found->peak_rates.write_bytes_per_second));
}

// On a drive with little room, the file for the measurement takes half of it.
TEST_F(ProbeTest, ASmallDriveIsMeasured) {
  const testing::LoopDrive drive(directory_.path(), "ext4", 40 * kMiB);
  if (!drive.why_not().empty()) GTEST_SKIP() << drive.why_not();
  const Result<DriveProbe> found = probe(drive.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_LT(found->capacity_bytes, 40 * kMiB);
  EXPECT_GT(found->rates.read_bytes_per_second, 0);
  const Result<DriveProbe> again = describe_drive(drive.path());
  EXPECT_EQ(again->capacity_bytes, found->capacity_bytes) << "the file's room is given back";
}

TEST_F(ProbeTest, EndsWhenItIsInterrupted) {
  for (const int answers_before : {0, 1}) {  // while it writes its file, and while it measures
    ProbeOptions options;
    options.file_bytes = 96 * kMiB;
    options.sustained.interval_ns = 600'000'000'000;
    options.sustained.longest_ns = 600'000'000'000;
    int asked = 0;
    options.is_interrupted = [&] { return asked++ >= answers_before; };
    const Result<DriveProbe> found = probe_directory(directory_.path(), options);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), ErrorCode::kInterrupted);
    EXPECT_EQ(asked, answers_before + 1);
    EXPECT_TRUE(directory_.is_empty());
  }
}

TEST_F(ProbeTest, FailsAsTheStoreDoes) {
  const Result<DriveProbe> found = probe(directory_.path() / "absent");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), ErrorCode::kNotFound);
}

class ProbeCacheTest : public ProbeTest {
 protected:
  // The entry that a probe of this drive would leave, without a measurement.
  DriveProbe known() {
    DriveProbe probe;
    probe.identity = identity();
    probe.rates.read_bytes_per_second = 3'000'000'000;
    probe.rates.write_bytes_per_second = 2'000'000'000;
    probe.duplex = 1.25;
    probe.request_latency_ns = 80'000;
    probe.origin = RatesOrigin::kRuns;
    probe.peak_rates.read_bytes_per_second = 4'000'000'000;
    return probe;
  }
  std::string identity() {
    if (identity_.empty()) identity_ = this->probe(directory_.path())->identity;
    return identity_;
  }

 private:
  std::string identity_;
};

TEST_F(ProbeCacheTest, ComesBackForTheSameDrive) {
  ASSERT_TRUE(save_cached_probe(cache(), known()).ok());
  const auto loaded = load_cached_probe(cache(), directory_.path());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->rates.read_bytes_per_second, 3'000'000'000);
  EXPECT_EQ(loaded->rates.write_bytes_per_second, 2'000'000'000);
  EXPECT_EQ(loaded->duplex, 1.25);
  EXPECT_EQ(loaded->request_latency_ns, 80'000);
  EXPECT_EQ(loaded->origin, RatesOrigin::kRuns);
  EXPECT_EQ(loaded->peak_rates.read_bytes_per_second, 4'000'000'000);
  EXPECT_EQ(loaded->peak_rates.write_bytes_per_second, 0);
  EXPECT_EQ(loaded->identity, identity());
  EXPECT_GT(loaded->capacity_bytes, 0) << "free room is that of now";
}

TEST_F(ProbeCacheTest, AnotherDriveOrAnOldSettingIsNotFound) {
  DriveProbe other = known();
  other.identity += " and another depth";
  ASSERT_TRUE(save_cached_probe(cache(), other).ok());
  EXPECT_FALSE(load_cached_probe(cache(), directory_.path()).has_value());
}

TEST_F(ProbeCacheTest, ADamagedEntryIsNotFound) {
  ASSERT_TRUE(save_cached_probe(cache(), known()).ok());
  for (const auto& entry : std::filesystem::directory_iterator(cache()))
    std::ofstream(entry.path()) << "{\"format\": \"teraio-probe/1\"";
  EXPECT_FALSE(load_cached_probe(cache(), directory_.path()).has_value());
}

TEST_F(ProbeCacheTest, NoCacheAtAllIsNotFound) {
  EXPECT_FALSE(load_cached_probe(cache(), directory_.path()).has_value());
  EXPECT_FALSE(load_cached_probe(cache(), directory_.path() / "absent").has_value());
}

TEST_F(ProbeCacheTest, ProcessesThatStartTogetherMeasureOnce) {
  std::vector<std::string> said[2];
  const auto want = [&](std::vector<std::string>& lines) {
    ProbeOptions options;
    options.sustained.interval_ns = 3'000'000;
    options.sustained.longest_ns = 60'000'000;
    options.file_bytes = 96 * kMiB;
    options.progress = [&](const std::string& line) { lines.push_back(line); };
    return cached_or_measured(cache(), directory_.path(), options);
  };
  // A lock on a file belongs to the open file description, so threads behave like processes.
  auto other = std::async(std::launch::async, [&] { return want(said[0]); });
  const Result<DriveProbe> mine = want(said[1]);
  const Result<DriveProbe> others = other.get();
  ASSERT_TRUE(mine.ok() && others.ok());
  EXPECT_EQ(mine->rates.read_bytes_per_second, others->rates.read_bytes_per_second);
  const auto measures = Contains(HasSubstr("latency"));
  EXPECT_NE(Matches(measures)(said[0]), Matches(measures)(said[1])) << "one of them measures";
}

TEST_F(ProbeCacheTest, TheWaitForAnotherProcessCanBeInterrupted) {
  std::filesystem::create_directories(cache());
  const std::filesystem::path file = cache() / "probe.lock";
  const int fd = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ProbeOptions options;
  options.progress = [this](const std::string& line) { lines_.push_back(line); };
  options.is_interrupted = [] { return true; };
  const Result<DriveProbe> found = cached_or_measured(cache(), directory_.path(), options);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), ErrorCode::kInterrupted);
  EXPECT_THAT(found.status().message(), HasSubstr(file.string()));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("waiting for " + file.string())));
  close(fd);
}

}  // namespace
}  // namespace teraio::probe
