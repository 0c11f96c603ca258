#include "engine/follower.h"

#include <gtest/gtest.h>

#include <vector>

namespace teraio::engine {
namespace {

class FollowerTest : public ::testing::Test {
 protected:
  // Ops 1, 2, 3 ... in a row.
  void follow_distinct(uint64_t count) {
    std::vector<uint64_t> signatures;
    for (uint64_t i = 1; i <= count; ++i) signatures.push_back(i);
    follower_.follow(signatures);
  }

  std::vector<trace::OpIndex> run(const std::vector<uint64_t>& signatures) {
    std::vector<trace::OpIndex> positions;
    for (const uint64_t signature : signatures) positions.push_back(follower_.advance(signature));
    return positions;
  }

  Follower follower_;
};

TEST_F(FollowerTest, HasNothingToFollowAtFirst) {
  EXPECT_EQ(run({1, 2}), (std::vector<trace::OpIndex>{kLost, kLost}));
  EXPECT_FALSE(follower_.is_following());
  EXPECT_FALSE(follower_.is_exact_end());
  EXPECT_EQ(follower_.deviation_count(), 0) << "there was nothing to deviate from";
}

TEST_F(FollowerTest, FollowsToTheExactEnd) {
  follow_distinct(3);
  EXPECT_EQ(run({1, 2}), (std::vector<trace::OpIndex>{0, 1}));
  EXPECT_FALSE(follower_.is_exact_end()) << "one op is missing";
  EXPECT_EQ(run({3}), (std::vector<trace::OpIndex>{2}));
  EXPECT_TRUE(follower_.is_exact_end());
}

TEST_F(FollowerTest, FollowsAgainInTheNextIteration) {
  follow_distinct(3);
  run({1, 2, 3});
  follower_.start_iteration();
  EXPECT_EQ(run({1, 2, 3}), (std::vector<trace::OpIndex>{0, 1, 2}));
  EXPECT_TRUE(follower_.is_exact_end());
}

TEST_F(FollowerTest, LosesItsPlaceAtAnOpThatDiffers) {
  follow_distinct(20);
  EXPECT_EQ(run({1, 2, 99, 4}), (std::vector<trace::OpIndex>{0, 1, kLost, kLost}));
  EXPECT_FALSE(follower_.is_following());
  EXPECT_EQ(follower_.deviation_count(), 1) << "once, however long it lasts";
}

TEST_F(FollowerTest, AnOpBeyondTheEndIsADeviation) {
  follow_distinct(3);
  EXPECT_EQ(run({1, 2, 3, 1}), (std::vector<trace::OpIndex>{0, 1, 2, kLost}));
  EXPECT_FALSE(follower_.is_exact_end());
}

TEST_F(FollowerTest, FindsItsPlaceAfterSixOpsInARow) {
  follow_distinct(20);
  run({1, 2, 99});
  EXPECT_EQ(run({10, 11, 12, 13, 14, 15, 16}),
            (std::vector<trace::OpIndex>{kLost, kLost, kLost, kLost, kLost, 14, 15}));
  EXPECT_TRUE(follower_.is_following());
}

TEST_F(FollowerTest, AnIterationThatDeviatedDoesNotEndExactly) {
  follow_distinct(10);
  run({1, 99, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_TRUE(follower_.is_following());
  EXPECT_FALSE(follower_.is_exact_end());
  follower_.start_iteration();
  run({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_TRUE(follower_.is_exact_end());
}

TEST_F(FollowerTest, DoesNotGuessAmongRepeatedWindows) {
  // Two equal layers of eight ops, then one that occurs once.
  follower_.follow({1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  run({99});
  EXPECT_EQ(run({1, 2, 3, 4, 5, 6, 7, 8}), std::vector<trace::OpIndex>(8, kLost)) << "which layer?";
  EXPECT_EQ(run({9}), (std::vector<trace::OpIndex>{16}));
}

TEST_F(FollowerTest, OpsBeforeTheDeviationDoNotCountForTheWindow) {
  follow_distinct(20);
  run({1, 2, 3, 4, 5, 99});
  EXPECT_EQ(run({6}), (std::vector<trace::OpIndex>{kLost}));
}

TEST_F(FollowerTest, ANewProfileReplacesTheOld) {
  follow_distinct(20);
  run({1, 2});
  follower_.follow({7, 8});
  EXPECT_EQ(run({7, 8}), (std::vector<trace::OpIndex>{0, 1}));
  EXPECT_TRUE(follower_.is_exact_end());
}

}  // namespace
}  // namespace teraio::engine
