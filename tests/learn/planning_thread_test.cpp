#include "learn/planning_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
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
        {}, in_background);
    const int64_t first = planning.request([] { return profile_named("first"); });
    const int64_t second = planning.request([] { return profile_named("second"); });
    const std::vector<PlanningThread::Made> made = wait_for(planning, 2);
    EXPECT_EQ(made[0].ticket, first);
    EXPECT_EQ(made[1].ticket, second);
    ASSERT_TRUE(made[1].schedule.ok());
    EXPECT_EQ((*made[1].schedule)->plan()->trace, "second");
    EXPECT_EQ(planning.work().plans_made, 2);
    EXPECT_GT(planning.work().planning_ns, 0);
    EXPECT_FALSE(planning.has_made());
  }
}

TEST(PlanningThread, AFailureIsTheResult) {
  const Status failure(ErrorCode::kOutOfMemory, "too small");
  PlanningThread planning([&](const iteration::Profile&) -> Result<plan::Plan> { return failure; },
                          {}, false);
  planning.request([] { return iteration::Profile(); });
  ASSERT_TRUE(planning.has_made());
  EXPECT_EQ(planning.take_made()[0].schedule.status(), failure);
}

TEST(PlanningThread, AnExceptionIsAFailure) {
  for (const bool in_background : {false, true}) {
    PlanningThread planning(
        [](const iteration::Profile&) -> Result<plan::Plan> { throw std::runtime_error("a bug"); },
        {}, in_background);
    planning.request([] { return iteration::Profile(); });
    planning.request([]() -> iteration::Profile { throw std::runtime_error("no memory"); });
    const std::vector<PlanningThread::Made> made = wait_for(planning, 2);
    EXPECT_EQ(made[0].schedule.status(), Status(ErrorCode::kInternal, "a bug"));
    EXPECT_EQ(made[1].schedule.status(), Status(ErrorCode::kInternal, "no memory"));
  }
}

TEST(PlanningThread, ARequestDoesNotWaitForThePlan) {
  std::promise<void> may_plan;
  PlanningThread planning(
      [&](const iteration::Profile&) {
        may_plan.get_future().wait();
        return plan::Plan();
      },
      {}, true);
  planning.request([] { return iteration::Profile(); });
  EXPECT_FALSE(planning.has_made());
  EXPECT_TRUE(planning.work().is_planning);
  may_plan.set_value();
  EXPECT_EQ(wait_for(planning, 1).size(), 1u);
  EXPECT_FALSE(planning.work().is_planning);
}

TEST(PlanningThread, StoppedItMakesNoOtherPlan) {
  for (const bool in_background : {false, true}) {
    PlanningThread planning([](const iteration::Profile&) { return plan::Plan(); }, {},
                            in_background);
    planning.request([] { return iteration::Profile(); });
    planning.stop();
    const int64_t made_count = planning.work().plans_made;
    planning.request([] { return iteration::Profile(); });
    planning.stop();
    EXPECT_EQ(planning.work().plans_made, made_count);
  }
}

// Searches, on a thread of their own unless told otherwise, until they are stopped or may end.
class PlanningThreadSearch : public ::testing::Test {
 protected:
  Result<FoundPlan> improve(const iteration::Schedule& schedule, const std::atomic<bool>& stop) {
    ++begun_count_;
    while (!stop && !may_end_) std::this_thread::yield();
    was_stopped_ = stop.load();
    return FoundPlan{plan::Plan{schedule.profile().trace.name + ", better", {}}, 90, 100, {}};
  }
  static PlanningThread::MadeSchedule schedule_named(const std::string& name) {
    return std::make_shared<const iteration::Schedule>(profile_named(name), plan::Plan());
  }
  PlanningThread planning(bool in_background = true) {
    return {[](const iteration::Profile&) { return plan::Plan(); },
            [this](const auto& schedule, const auto& stop) { return improve(schedule, stop); },
            in_background};
  }
  void wait_until_begun(int count) {
    while (begun_count_ < count) std::this_thread::yield();
  }
  static std::string found_by(PlanningThread& planning) {
    while (planning.work().is_searching) std::this_thread::yield();
    const auto found = planning.take_found();
    return found ? found->schedule->plan()->trace : "nothing";
  }

  std::atomic<int> begun_count_ = 0;
  std::atomic<bool> may_end_ = false;
  std::atomic<bool> was_stopped_ = false;
};

TEST_F(PlanningThreadSearch, FindsAPlanForTheSameProfile) {
  may_end_ = true;
  for (const bool in_background : {false, true}) {
    PlanningThread planning = this->planning(in_background);
    planning.search(schedule_named("a step"));
    EXPECT_EQ(found_by(planning), "a step, better");
    EXPECT_FALSE(planning.take_found()) << "it is told once";
    EXPECT_GT(planning.work().search_ns, 0);
    EXPECT_EQ(planning.work().planning_ns, 0);
  }
}

TEST_F(PlanningThreadSearch, APlanThatIsAskedForDoesNotWaitForASearch) {
  PlanningThread planning = this->planning();
  planning.search(schedule_named("a step"));
  wait_until_begun(1);
  planning.request([] { return profile_named("another step"); });
  EXPECT_EQ(wait_for(planning, 1).size(), 1u);
  EXPECT_TRUE(planning.work().is_searching) << "it begins anew";
  wait_until_begun(2);
  may_end_ = true;
  EXPECT_EQ(found_by(planning), "a step, better");
}

TEST_F(PlanningThreadSearch, NothingComesOfASearchThatIsEnded) {
  PlanningThread planning = this->planning();
  planning.search(schedule_named("a step"));
  wait_until_begun(1);
  planning.end_search();
  EXPECT_FALSE(planning.work().is_searching);
  planning.search(schedule_named("another step"));
  wait_until_begun(2);
  EXPECT_TRUE(was_stopped_);
  may_end_ = true;
  EXPECT_EQ(found_by(planning), "another step, better");
}

TEST_F(PlanningThreadSearch, TheEndOfPlanningStopsASearch) {
  PlanningThread planning = this->planning();
  planning.search(schedule_named("a step"));
  wait_until_begun(1);
  planning.stop();
  EXPECT_TRUE(was_stopped_);
  EXPECT_EQ(found_by(planning), "nothing");
  planning.search(schedule_named("a step"));
  EXPECT_EQ(begun_count_, 1);
}

TEST_F(PlanningThreadSearch, AnExceptionFindsNothing) {
  PlanningThread planning(
      [](const iteration::Profile&) { return plan::Plan(); },
      [](const auto&, const auto&) -> Result<FoundPlan> { throw std::runtime_error("a bug"); },
      true);
  planning.search(schedule_named("a step"));
  EXPECT_EQ(found_by(planning), "nothing");
}

}  // namespace
}  // namespace teraio::learn
