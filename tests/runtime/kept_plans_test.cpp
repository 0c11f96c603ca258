#include "runtime/kept_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_file.h"
#include "plan/scenario.h"
#include "testing/captured_log.h"
#include "testing/scratch_directory.h"

namespace teraio::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::machine;

class KeptPlansTest : public ::testing::Test {
 protected:
  KeptPlansTest() {
    trace_.name = "iteration 0123456789abcdef 0000000000000001";
    limits_.device_budget_bytes = 100;
    spdlog::set_level(spdlog::level::info);
  }
  ~KeptPlansTest() override { spdlog::set_level(spdlog::level::warn); }

  plan::Plan plan_of_both() const {
    return {trace_.name,
            {testing::offload(0, 1, 2), testing::offload(1, 2, 3), testing::prefetch(1, 3, 3),
             testing::prefetch(0, 4, 4)}};
  }
  KeptPlanUse use() const { return {trace_, hardware_, limits_, planner::Recompute::kAll}; }
  bool finds() const { return KeptPlans(scratch_.path()).find(use()).has_value(); }
  fs::path path() const { return KeptPlans(scratch_.path()).path_for(use()); }
  fs::path folder() const { return scratch_.path() / "plans"; }
  void keep() const { KeptPlans(scratch_.path()).keep(plan_of_both(), use()); }
  // A plan is kept, and then its file is not what it was.
  void expect_removed(const std::string& reason) const {
    EXPECT_FALSE(finds());
    EXPECT_FALSE(fs::exists(fs::symlink_status(path())));
    EXPECT_THAT(log_.text(), HasSubstr(reason));
  }
  static void make_old(const fs::path& path, std::chrono::hours age) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  }

  testing::ScratchDirectory scratch_;
  testing::CapturedLog log_;
  trace::Trace trace_ = testing::weight_and_activation();
  hardware::Hardware hardware_ = machine(149);
  plan::Limits limits_;
};

TEST_F(KeptPlansTest, APlanIsFoundForTheUseThatItIsKeptFor) {
  EXPECT_FALSE(finds());
  keep();
  EXPECT_EQ(KeptPlans(scratch_.path()).find(use()), plan_of_both());
  EXPECT_EQ(log_.text(), "");
}

// Whatever the rate: where classes of rates have bounds, a rate beside one is in two of them.
TEST_F(KeptPlansTest, ARateThatIsMeasuredAnewIsTheSame) {
  int64_t& rate = hardware_.drives[0].rates.read_bytes_per_second;
  for (rate = 1'000'000'000; rate < 2'000'000'000; rate += rate / 10) {
    keep();
    const fs::path before = path();
    rate += rate / 10;
    EXPECT_EQ(path(), before) << rate;
    rate *= 2;
    EXPECT_NE(path(), before) << rate;
    rate /= 2;
    fs::remove(before);
  }
}

TEST_F(KeptPlansTest, APlanIsForOneProgramMachineAndChoiceOfOptions) {
  keep();
  const KeptPlans plans(scratch_.path());
  EXPECT_FALSE(plans.find({trace_, hardware_, limits_, planner::Recompute::kOff}));
  plan::Limits limits = limits_;
  limits.device_budget_bytes = 149;
  EXPECT_FALSE(plans.find({trace_, hardware_, limits, planner::Recompute::kAll}));
  trace_.name = "iteration 0123456789abcdef 0000000000000002";
  EXPECT_FALSE(finds());
  EXPECT_EQ(log_.text(), "");
}

TEST_F(KeptPlansTest, APlanOfAnotherProgramUnderThisNameIsRemoved) {
  keep();
  const fs::path other = path();
  trace_.name = "iteration fedcba9876543210 0000000000000001";
  fs::rename(other, path());
  expect_removed("expected a plan for");
}

TEST_F(KeptPlansTest, APlanThatDoesNotFitTheRecordedIterationIsRemoved) {
  keep();
  trace_.tensors[0].size_bytes *= 3;
  expect_removed("device memory");
}

TEST_F(KeptPlansTest, AnotherFormatIsRemoved) {
  keep();
  ASSERT_TRUE(write_text_file(path(), R"({"format": "teraio-plan/9"})").ok());
  expect_removed("teraio-plan/9");
}

TEST_F(KeptPlansTest, ATruncatedFileIsRemoved) {
  keep();
  fs::resize_file(path(), fs::file_size(path()) / 2);
  expect_removed("gzip");
}

TEST_F(KeptPlansTest, WhatIsNotJsonIsRemoved) {
  keep();
  ASSERT_TRUE(write_text_file(path(), "plan").ok());
  expect_removed("JSON");
}

TEST_F(KeptPlansTest, ALinkIsRemovedAndWhatItLeadsToStays) {
  keep();
  const fs::path target = scratch_.path() / "target.json.gz";
  fs::rename(path(), target);
  fs::create_symlink(target, path());
  const auto size_bytes = fs::file_size(target);
  expect_removed("no file");
  fs::remove(path());
  fs::create_symlink(target, path());
  keep();
  EXPECT_FALSE(fs::is_symlink(path()));
  EXPECT_EQ(fs::file_size(target), size_bytes);
}

TEST_F(KeptPlansTest, AFileOfAnotherUserIsRemoved) {
  if (geteuid() != 0) GTEST_SKIP() << "not applicable: only root can give files away";
  keep();
  ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
  expect_removed("another user");
}

TEST_F(KeptPlansTest, AFolderThatOthersCanChangeIsNotUsed) {
  keep();
  fs::permissions(folder(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(finds());
  const fs::path other = scratch_.path() / "other";
  fs::rename(folder(), other);
  fs::permissions(other, fs::perms::owner_all);
  fs::create_symlink(other, folder());
  EXPECT_FALSE(finds());
  fs::remove(path());
  keep();
  EXPECT_TRUE(fs::is_empty(other));
}

TEST_F(KeptPlansTest, OnlyTheUserCanReadPlans) {
  keep();
  struct stat status = {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(KeptPlansTest, AFolderThatCannotBeMadeKeepsNothing) {
  const KeptPlans plans("/proc/x");
  plans.keep(plan_of_both(), use());
  EXPECT_FALSE(plans.find(use()));
}

TEST_F(KeptPlansTest, APlanThatNoRunHasUsedForLongIsRemoved) {
  keep();
  make_old(path(), std::chrono::days(89));
  EXPECT_TRUE(finds());
  EXPECT_GT(fs::last_write_time(path()), fs::file_time_type::clock::now() - std::chrono::days(1));
  make_old(path(), std::chrono::days(91));
  expect_removed("too old");
}

TEST_F(KeptPlansTest, TheOldestOfTooManyBytesAreRemoved) {
  keep();
  const fs::path first = path();
  make_old(first, std::chrono::hours(1));
  const auto size_bytes = static_cast<int64_t>(fs::file_size(first));
  const KeptPlans plans(scratch_.path(), 2 * size_bytes + size_bytes / 2);
  for (const char last : {'2', '3'}) {
    trace_.name.back() = last;
    plans.keep(plan_of_both(), use());
  }
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(finds());
  trace_.name.back() = '2';
  EXPECT_TRUE(finds());
}

}  // namespace
}  // namespace teraio::runtime
