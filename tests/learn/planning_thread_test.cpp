#include "learn/planning_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace teraio::learn {
namespace {

iteration::Profile profile_named(const std::string& name) {
  iteration::Profile profile;
  profile.trace.name = name;
  return profile;
}

std::vector<PlanningThread::Made> wait_for(PlanningThread& planning, size_t count) {
  std::vector<PlanningThread::Made> made;
  while (made.size() < count) {
    for (PlanningThread::Made& each : planning.take_made()) made.push_back(std::move(each));
    std::this_thread::yield();
  }
  return made;
}

TEST(PlanningThread, MakesPlansInTheOrderOfTheRequests) {
  for (const bool in_background : {false, true}) {
    PlanningThread planning(
        [](const iteration::Profile& profile) {
          return plan::Plan{profile.trace.name, {}};
        },
        in_background);
    const int64_t first = planning.request([] { return profile_named("first"); });
    const int64_t second = planning.request([] { return profile_named("second"); });
    const std::vector<PlanningThread::Made> made = wait_for(planning, 2);
    EXPECT_EQ(made[0].ticket, first);
    EXPECT_EQ(made[1].ticket, second);
    ASSERT_TRUE(made[1].schedule.ok());
    EXPECT_EQ((*made[1].schedule)->plan()->trace, "second");
    EXPECT_EQ(planning.made_count(), 2);
    EXPECT_GT(planning.planning_ns(), 0);
    EXPECT_FALSE(planning.has_made());
  }
}

TEST(PlanningThread, AFailureIsTheResult) {
  const Status failure(ErrorCode::kOutOfMemory, "too small");
  PlanningThread planning([&](const iteration::Profile&) -> Result<plan::Plan> { return failure; },
                          false);
  planning.request([] { return iteration::Profile(); });
  ASSERT_TRUE(planning.has_made());
  EXPECT_EQ(planning.take_made()[0].schedule.status(), failure);
}

TEST(PlanningThread, AnExceptionIsAFailure) {
  for (const bool in_background : {false, true}) {
    PlanningThread planning(
        [](const iteration::Profile&) -> Result<plan::Plan> { throw std::runtime_error("a bug"); },
        in_background);
    planning.request([] { return iteration::Profile(); });
    const Status status = wait_for(planning, 1)[0].schedule.status();
    EXPECT_EQ(status, Status(ErrorCode::kInternal, "a bug"));
  }
}

TEST(PlanningThread, ARequestDoesNotWaitForThePlan) {
  std::promise<void> may_plan;
  PlanningThread planning(
      [&](const iteration::Profile&) {
        may_plan.get_future().wait();
        return plan::Plan();
      },
      true);
  planning.request([] { return iteration::Profile(); });
  EXPECT_FALSE(planning.has_made());
  EXPECT_TRUE(planning.is_planning());
  may_plan.set_value();
  EXPECT_EQ(wait_for(planning, 1).size(), 1u);
  EXPECT_FALSE(planning.is_planning());
}

TEST(PlanningThread, StoppedItMakesNoOtherPlan) {
  for (const bool in_background : {false, true}) {
    PlanningThread planning([](const iteration::Profile&) { return plan::Plan(); }, in_background);
    planning.request([] { return iteration::Profile(); });
    planning.stop();
    const int64_t made_count = planning.made_count();
    planning.request([] { return iteration::Profile(); });
    planning.stop();
    EXPECT_EQ(planning.made_count(), made_count);
  }
}

}  // namespace
}  // namespace teraio::learn
