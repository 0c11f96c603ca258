#include "engine/profile_binding.h"

#include <gtest/gtest.h>

#include <vector>

namespace teraio::engine {
namespace {

class ProfileBindingTest : public ::testing::Test {
 protected:
  // A profile of a weight with the id 7 and two activations.
  void follow(const std::vector<LiveTensor*>& live) {
    const std::vector<trace::Tensor> tensors = {
        {7, 1, true, {}, ""}, {1, 1, false, {}, ""}, {2, 1, false, {}, ""}};
    binding_.follow(tensors, live);
  }
  void bind(const std::vector<trace::TensorIndex>& touches, const std::vector<LiveTensor*>& used) {
    std::vector<Use> uses;
    for (LiveTensor* tensor : used) uses.push_back({tensor, false});
    binding_.bind(touches, uses);
  }

  ProfileBinding binding_;
  LiveTensor a_;
  LiveTensor b_;
};

TEST_F(ProfileBindingTest, FindsPersistentTensorsByTheirIds) {
  a_.id = 7;
  b_.id = 1;
  follow({&b_, &a_});
  EXPECT_EQ(binding_.find(0), &a_);
  EXPECT_EQ(a_.planned.profile_index, 0);
  EXPECT_EQ(binding_.find(1), nullptr) << "the tensors of an iteration have other ids in the next";
  EXPECT_EQ(b_.planned.profile_index, -1);
}

TEST_F(ProfileBindingTest, APersistentTensorThatHasDiedIsNotBound) {
  follow({});
  EXPECT_EQ(binding_.find(0), nullptr);
}

TEST_F(ProfileBindingTest, BindsByThePlaceInTheOp) {
  follow({});
  bind({2, 1}, {&a_, &b_});
  EXPECT_EQ(binding_.find(2), &a_);
  EXPECT_EQ(binding_.find(1), &b_);
}

TEST_F(ProfileBindingTest, ANewTensorTakesThePlaceOfTheOldOne) {
  follow({});
  bind({1}, {&a_});
  bind({1}, {&b_});
  EXPECT_EQ(binding_.find(1), &b_);
  EXPECT_EQ(a_.planned.profile_index, -1);
}

TEST_F(ProfileBindingTest, ATensorIsInOnePlace) {
  follow({});
  bind({1}, {&a_});
  bind({2}, {&a_});
  EXPECT_EQ(binding_.find(1), nullptr);
  EXPECT_EQ(binding_.find(2), &a_);
}

TEST_F(ProfileBindingTest, AnOpWithOtherTensorsThanTheProfilesBindsWhatBothHave) {
  follow({});
  bind({1}, {&a_, &b_});
  EXPECT_EQ(b_.planned.profile_index, -1);
  bind({1, 2}, {&a_});
  EXPECT_EQ(binding_.find(2), nullptr);
}

TEST_F(ProfileBindingTest, UnbindingTwiceDoesNothing) {
  follow({});
  bind({1}, {&a_});
  binding_.unbind(a_);
  EXPECT_EQ(binding_.find(1), nullptr);
  bind({1}, {&b_});
  binding_.unbind(a_);
  EXPECT_EQ(binding_.find(1), &b_);
}

TEST_F(ProfileBindingTest, AnotherProfileBeginsWithoutBindings) {
  follow({});
  bind({1}, {&a_});
  follow({});
  EXPECT_EQ(binding_.find(1), nullptr);
  EXPECT_EQ(a_.planned.profile_index, -1);
}

}  // namespace
}  // namespace teraio::engine
