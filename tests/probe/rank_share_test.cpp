#include "probe/rank_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/scratch_directory.h"

namespace teraio::probe {
namespace {

using ::testing::HasSubstr;
using testing::ScratchDirectory;

// Two drives that every machine has: that of the test's files and that of its memory.
class RankShareTest : public ::testing::Test {
 protected:
  int32_t ranks_on(const std::filesystem::path& directory, const std::vector<Directories>& ranks) {
    const Result<int32_t> count = ranks_on_drive(directory, ranks);
    EXPECT_TRUE(count.ok()) << count.status().message();
    return count.ok() ? *count : -1;
  }

  ScratchDirectory first_;
  ScratchDirectory second_;
  const std::filesystem::path elsewhere_ = "/dev/shm";
};

TEST_F(RankShareTest, DirectoriesOfOneDriveShareIt) {
  EXPECT_EQ(ranks_on(first_.path(), {{first_.path()}, {second_.path()}}), 2);
  EXPECT_EQ(ranks_on(first_.path(), {{first_.path()}, {first_.path()}, {first_.path()}}), 3);
}

TEST_F(RankShareTest, ADriveOfOnesOwnIsNotShared) {
  EXPECT_EQ(ranks_on(first_.path(), {{first_.path()}, {elsewhere_}}), 1);
  EXPECT_EQ(ranks_on(elsewhere_, {{first_.path()}, {elsewhere_}}), 1);
}

TEST_F(RankShareTest, ARankCountsOnce) {
  EXPECT_EQ(ranks_on(first_.path(), {{first_.path(), second_.path()}, {elsewhere_}}), 1);
  EXPECT_EQ(ranks_on(first_.path(), {{first_.path()}, {elsewhere_, second_.path()}}), 2);
}

TEST_F(RankShareTest, WithoutRanksItIsWhole) { EXPECT_EQ(ranks_on(first_.path(), {}), 1); }

TEST_F(RankShareTest, AnotherRanksMissingDirectoryIsNamed) {
  const std::vector<Directories> ranks = {{first_.path()}, {first_.path() / "rank1"}};
  const Result<int32_t> count = ranks_on_drive(first_.path(), ranks);
  ASSERT_FALSE(count.ok());
  EXPECT_THAT(count.status().message(), HasSubstr("rank1"));
}

TEST_F(RankShareTest, ARankHasItsPartOfRoomAndRates) {
  DriveProbe drive;
  drive.capacity_bytes = 900;
  drive.rates.read_bytes_per_second = 6000;
  drive.rates.write_bytes_per_second = 3000;
  drive.request_latency_ns = 80;
  const DriveProbe share = share_of(drive, 3);
  EXPECT_EQ(share.capacity_bytes, 300);
  EXPECT_EQ(share.rates.read_bytes_per_second, 2000);
  EXPECT_EQ(share.rates.write_bytes_per_second, 1000);
  EXPECT_EQ(share.request_latency_ns, 80);
}

}  // namespace
}  // namespace teraio::probe
