#include "learn/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "iteration/resized_profile.h"

namespace teraio::learn {
namespace {

using ::testing::UnorderedElementsAre;

constexpr int64_t kWeightBytes = 1000;

// Op 0 makes an activation of an input and a weight, op 1 makes another one of it, op 2 uses both.
iteration::Profile profile_of(int64_t input_bytes, int64_t first_bytes, int64_t second_bytes) {
  iteration::Profile profile;
  profile.trace.name = "iteration";
  profile.trace.tensors = {{1, kWeightBytes, true, {}, ""},
                           {2, input_bytes, false, {}, ""},
                           {3, first_bytes, false, {}, ""},
                           {4, second_bytes, false, {}, ""}};
  profile.trace.ops = {{"mm", first_bytes, {1, 0}, {2}, {}, 0},
                       {"exp", second_bytes, {2}, {3}, {}, input_bytes},
                       {"sum", 10, {2, 3}, {}, {}, 0}};
  profile.touches = {{1, 0, 2}, {2, 3}, {2, 3}};
  profile.signatures = {{7, static_cast<uint64_t>(input_bytes)},
                        {8, static_cast<uint64_t>(first_bytes)},
                        {9, static_cast<uint64_t>(first_bytes + second_bytes)}};
  return profile;
}
// Sizes of a sequence of this length: the second activation grows with its square.
iteration::Profile profile_of_length(int64_t length) {
  return profile_of(10 * length, 100 * length, length * length);
}

SizesAtOp length_at_op_0(int64_t length) {
  return {0, static_cast<uint64_t>(10 * length), 2, 10 * length};
}

class PatternTest : public ::testing::Test {
 protected:
  void measure(int64_t length) {
    const auto sizes = static_cast<uint64_t>(length);
    std::shared_ptr<Variant> variant;
    if (!pattern_) {
      pattern_ = std::make_unique<Pattern>(profile_of_length(length), Pattern::Key{1, sizes});
      variant = pattern_->variants().front();
    } else {
      variant = pattern_->add_measured(profile_of_length(length), sizes);
    }
    variant->schedule =
        std::make_shared<const iteration::Schedule>(variant->profile(), plan::Plan());
  }
  // The length that the plan which fits was made for; 0: none fits.
  int64_t fitting_length(int64_t length) {
    const std::shared_ptr<Variant> variant = pattern_->fitting(length_at_op_0(length));
    return variant == nullptr ? 0 : variant->profile().trace.tensors[1].size_bytes / 10;
  }
  // Has a plan made for the length, if one is wanted. Returns the length of that plan.
  int64_t plan_for(int64_t length, bool succeeds = true) {
    const auto wanted = pattern_->wanted(length_at_op_0(length));
    if (!wanted) return 0;
    wanted->variant->ticket = ++ticket_;
    EXPECT_FALSE(pattern_->wanted(length_at_op_0(length)).has_value()) << "it is being made";
    using Made = Result<std::shared_ptr<const iteration::Schedule>>;
    const Made failure(Status(ErrorCode::kOutOfMemory, "small"));
    const Made made = std::make_shared<const iteration::Schedule>(wanted->profile(), plan::Plan());
    EXPECT_EQ(pattern_->take_made(ticket_, succeeds ? made : failure), wanted->variant);
    return wanted->variant->profile().trace.tensors[1].size_bytes / 10;
  }

  std::unique_ptr<Pattern> pattern_;
  int64_t ticket_ = 0;
};

TEST_F(PatternTest, IterationsOfOtherSizesAreAlike) {
  measure(100);
  EXPECT_TRUE(pattern_->is_like(profile_of_length(50)));
  iteration::Profile other_ops = profile_of_length(100);
  other_ops.signatures[1].structure = 5;
  EXPECT_FALSE(pattern_->is_like(other_ops));
  iteration::Profile other_tensors = profile_of_length(100);
  other_tensors.trace.tensors[3].persistent = true;
  EXPECT_FALSE(pattern_->is_like(other_tensors));
}

// A replay has small tensors by value and reads larger ones, so that batches of other sizes differ
// in what ops read. Op 0 does not read its input here.
iteration::Profile with_input_by_value(iteration::Profile profile) {
  profile.trace.ops[0].reads = {0};
  profile.trace.ops[0].replayable = true;
  return profile;
}

TEST_F(PatternTest, WhatReplaysReadDoesNotTellPatternsApart) {
  measure(100);
  EXPECT_TRUE(pattern_->is_like(with_input_by_value(profile_of_length(50))));
  iteration::Profile other_results = profile_of_length(100);
  other_results.trace.ops[1].writes = {};
  EXPECT_FALSE(pattern_->is_like(other_results));
  iteration::Profile other_inside = profile_of_length(100);
  other_inside.trace.ops[2].reads = {2, 3, 0};
  EXPECT_FALSE(pattern_->is_like(other_inside)) << "an op inside it reads what it does not name";
}

TEST_F(PatternTest, APlanForTwoProfilesKeepsWhatOneOfThemReads) {
  iteration::Profile large = profile_of_length(400);
  large.trace.ops[1].frees = {1};
  large.trace.ops[2].frees = {2, 3};
  iteration::Profile small = with_input_by_value(profile_of_length(100));
  small.trace.ops[2].frees = {2, 3};
  for (const iteration::Profile& both : {envelope(small, large), envelope(large, small)}) {
    EXPECT_THAT(both.trace.ops[0].reads, UnorderedElementsAre(0, 1));
    EXPECT_EQ(both.trace.ops[1].frees, (std::vector<trace::TensorIndex>{1}));
    EXPECT_THAT(both.trace.ops[2].frees, UnorderedElementsAre(2, 3));
  }
}

TEST_F(PatternTest, TheSmallestPlanWithRoomFits) {
  measure(100);
  measure(200);
  measure(400);
  EXPECT_EQ(fitting_length(200), 200);
  EXPECT_EQ(fitting_length(201), 400);
  EXPECT_EQ(fitting_length(50), 100);
  EXPECT_EQ(fitting_length(500), 400) << "the largest, where none has room";
}

TEST_F(PatternTest, WithoutAPlanNothingFits) {
  pattern_ = std::make_unique<Pattern>(profile_of_length(100), Pattern::Key{1, 100});
  EXPECT_EQ(fitting_length(100), 0);
  EXPECT_FALSE(pattern_->is_planned());
}

TEST_F(PatternTest, AMeasuredSizeThatFitsBetterIsPlannedOnce) {
  measure(100);
  measure(400);
  pattern_->add_measured(profile_of_length(200), 200);
  pattern_->add_measured(profile_of_length(300), 300);
  EXPECT_EQ(plan_for(350), 0) << "nothing fits better than a plan";
  EXPECT_EQ(plan_for(150), 200);
  EXPECT_EQ(fitting_length(150), 200);
  EXPECT_EQ(plan_for(150), 0);
  EXPECT_EQ(plan_for(250, /*succeeds=*/false), 300);
  EXPECT_EQ(plan_for(250), 0) << "it would fail again";
  EXPECT_EQ(fitting_length(250), 400);
}

TEST_F(PatternTest, WhereEachPartHasSizesOfItsOwnOnePlanServesAll) {
  const auto add = [&](uint64_t sizes, int64_t input, int64_t first, int64_t second) {
    iteration::Profile profile = profile_of(input, first, second);
    if (!pattern_)
      pattern_ = std::make_unique<Pattern>(profile, Pattern::Key{1, sizes});
    else
      pattern_->add_measured(std::move(profile), sizes);
  };
  add(1, 100'000, 1'000'000, 9'000'000);
  EXPECT_FALSE(pattern_->is_irregular());
  add(2, 400'000, 4'000'000, 1'000'000);
  ASSERT_TRUE(pattern_->is_irregular());
  const SizesAtOp at = {0, 0, 2, 300'000};
  const auto wanted = pattern_->wanted(at);
  ASSERT_TRUE(wanted.has_value());
  const iteration::Profile all = wanted->profile();
  EXPECT_EQ(all.trace.tensors[1].size_bytes, 400'000);
  EXPECT_EQ(all.trace.tensors[2].size_bytes, 4'000'000);
  EXPECT_EQ(all.trace.tensors[3].size_bytes, 9'000'000);
  EXPECT_NE(all.trace.name, "iteration") << "a plan for it is none for a measured one";
  wanted->variant->ticket = 1;
  pattern_->take_made(1, std::make_shared<const iteration::Schedule>(all, plan::Plan()));
  EXPECT_EQ(pattern_->fitting(at), wanted->variant);
  add(4, 100'000, 100'000, 100'000);
  EXPECT_FALSE(pattern_->wanted(at).has_value()) << "nothing is larger";
  add(5, 100'000, 10'000'000, 100'000);
  EXPECT_TRUE(pattern_->wanted(at).has_value());
}

TEST_F(PatternTest, KeepsABoundedNumberOfMeasuredSizes) {
  for (size_t i = 0; i < Pattern::kMeasuredMax; ++i) measure(static_cast<int64_t>(100 + i));
  EXPECT_EQ(pattern_->add_measured(profile_of_length(900), 900), nullptr);
  EXPECT_EQ(pattern_->variants().size(), Pattern::kMeasuredMax);
  EXPECT_GT(pattern_->size_bytes(), 0);
}

}  // namespace
}  // namespace teraio::learn
