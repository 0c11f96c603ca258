#include "iteration/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

namespace teraio::iteration {
namespace {

class FollowerTest : public ::testing::Test {
 protected:
  void follow(const std::vector<uint64_t>& structures) {
    const std::vector<OpSignature> signatures(structures.begin(), structures.end());
    follower_.follow(std::make_shared<const OpSequence>(signatures));
  }
  // Ops 1, 2, 3 ... in a row.
  void follow_distinct(uint64_t count) {
    std::vector<uint64_t> structures(count);
    std::iota(structures.begin(), structures.end(), 1);
    follow(structures);
  }
  // `count` layers of ops 1 to 8, and an op of its own after each: 101, 102 ...
  void follow_layers(uint64_t count) {
    std::vector<uint64_t> structures;
    for (uint64_t layer = 1; layer <= count; ++layer) {
      for (uint64_t op = 1; op <= 8; ++op) structures.push_back(op);
      structures.push_back(100 + layer);
    }
    follow(structures);
  }

  std::vector<trace::OpIndex> run(const std::vector<uint64_t>& structures) {
    std::vector<trace::OpIndex> places;
    for (const uint64_t structure : structures) places.push_back(follower_.advance(structure));
    return places;
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

TEST_F(FollowerTest, AnOpMoreCostsItself) {
  follow_distinct(20);
  EXPECT_EQ(run({1, 2, 99, 3, 4}), (std::vector<trace::OpIndex>{0, 1, kLost, 2, 3}));
  EXPECT_TRUE(follower_.is_following());
  EXPECT_EQ(follower_.deviation_count(), 1);
}

TEST_F(FollowerTest, AnOpLessCostsNothing) {
  follow_distinct(20);
  EXPECT_EQ(run({1, 2, 4, 5}), (std::vector<trace::OpIndex>{0, 1, 3, 4}));
  EXPECT_EQ(follower_.deviation_count(), 1);
}

TEST_F(FollowerTest, AmongEqualLayersAnOpThatIsNearShowsItsPlace) {
  follow_layers(3);
  run({1, 2, 3, 4, 5, 6, 7, 8, 101, 1, 2});
  EXPECT_EQ(run({99, 3, 4, 99, 5}), (std::vector<trace::OpIndex>{kLost, 11, 12, kLost, 13}))
      << "in the second layer, where the program was";
}

TEST_F(FollowerTest, AnOpWithOtherPlacesNearbyDoesNotShowWhere) {
  follow({1, 2, 1, 3, 1, 4, 1, 5});
  EXPECT_EQ(run({99, 1, 1, 4, 1}), (std::vector<trace::OpIndex>{kLost, kLost, kLost, 5, 6}));
}

TEST_F(FollowerTest, WhatIsSkippedIsFoundBehind) {
  follow_layers(3);
  run({1, 2});
  EXPECT_EQ(run({6, 7}), (std::vector<trace::OpIndex>{kLost, 6}));
}

TEST_F(FollowerTest, ASectionThatRunsAgainIsFoundBefore) {
  follow_layers(3);
  run({1, 2, 3, 4, 5, 6, 7, 8, 101});
  EXPECT_EQ(run({101, 1, 2}), (std::vector<trace::OpIndex>{8, 9, 10})) << "op 101 occurs once";
}

TEST_F(FollowerTest, IsLostWhileOpsAreUnknown) {
  follow_distinct(20);
  EXPECT_EQ(run({1, 2, 99, 98}), (std::vector<trace::OpIndex>{0, 1, kLost, kLost}));
  EXPECT_FALSE(follower_.is_following());
  EXPECT_EQ(follower_.deviation_count(), 1) << "once, however long it lasts";
}

TEST_F(FollowerTest, AnOpBeyondTheEndIsADeviation) {
  follow_distinct(3);
  EXPECT_EQ(run({1, 2, 3, 9}), (std::vector<trace::OpIndex>{0, 1, 2, kLost}));
  EXPECT_FALSE(follower_.is_exact_end());
}

TEST_F(FollowerTest, FarAwayItTakesFourOpsInARow) {
  follow_distinct(300);
  run({1, 2, 99});
  EXPECT_EQ(run({200, 201, 202, 203, 204}),
            (std::vector<trace::OpIndex>{kLost, kLost, kLost, 202, 203}));
  EXPECT_TRUE(follower_.is_following());
}

TEST_F(FollowerTest, FourOpsFarBehindLeadBackThere) {
  follow_distinct(300);
  for (uint64_t op = 1; op <= 250; ++op) run({op});
  EXPECT_EQ(run({1, 2, 3, 4, 5}), (std::vector<trace::OpIndex>{kLost, kLost, kLost, 3, 4}));
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

TEST_F(FollowerTest, OpsBeforeTheDeviationDoNotCount) {
  follow_layers(3);
  run({1, 2, 3});
  EXPECT_EQ(run({8, 99}), (std::vector<trace::OpIndex>{kLost, kLost}));
}

TEST_F(FollowerTest, ANewSequenceReplacesTheOld) {
  follow_distinct(20);
  run({1, 2});
  follow({7, 8});
  EXPECT_EQ(run({7, 8}), (std::vector<trace::OpIndex>{0, 1}));
  EXPECT_TRUE(follower_.is_exact_end());
}

TEST_F(FollowerTest, MayBeginInTheMiddle) {
  const std::vector<OpSignature> signatures = {1, 2, 3, 4};
  follower_.follow(std::make_shared<const OpSequence>(signatures), 2);
  EXPECT_TRUE(follower_.expects(3));
  EXPECT_EQ(run({3, 4}), (std::vector<trace::OpIndex>{2, 3}));
  EXPECT_TRUE(follower_.is_exact_end());
}

TEST(OpSequence, KnowsWhereEachOpOccurs) {
  const OpSequence sequence(std::vector<OpSignature>{5, 9, 5, 7});
  EXPECT_TRUE(std::ranges::equal(sequence.places_of(5), std::vector<trace::OpIndex>{0, 2}));
  EXPECT_TRUE(std::ranges::equal(sequence.places_of(7), std::vector<trace::OpIndex>{3}));
  EXPECT_TRUE(sequence.places_of(6).empty());
}

TEST(OpSequence, EqualBeginningsHaveEqualHashes) {
  const OpSequence a(std::vector<OpSignature>{5, {9, 1}, 5});
  const OpSequence b(std::vector<OpSignature>{5, {9, 2}, 7});
  EXPECT_EQ(a.prefix_hash(2), b.prefix_hash(2)) << "sizes do not matter";
  EXPECT_NE(a.prefix_hash(3), b.prefix_hash(3));
}

}  // namespace
}  // namespace teraio::iteration
