// Plans under a write budget: within it whatever it is, and refused with the least one that does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/scenario.h"
#include "planner/min_traffic.h"
#include "planner/planned_case.h"
#include "testing/generated_trace.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

using ::testing::HasSubstr;
using testing::machine;

plan::Limits with_budget(int64_t bytes) {
  plan::Limits limits;
  limits.write_budget_bytes = bytes;
  return limits;
}

TEST(WriteBudget, TheErrorNamesTheLeastThatWouldDo) {
  const trace::Trace trace = testing::weight_and_activation();
  const Result<plan::Plan> refused = plan(trace, machine(149), with_budget(39));
  EXPECT_EQ(refused.status().code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("a write budget of 39 bytes per iteration is too small: the least that "
                        "would do is 40"));
  EXPECT_EQ(*min_write_budget_bytes(trace, machine(149), {}), 40);  // A once, W would be 60
  EXPECT_TRUE(plan(trace, machine(149), with_budget(40)).ok());
}

TEST(WriteBudget, NothingNeedsToBeWrittenWhenEverythingFits) {
  EXPECT_EQ(*min_write_budget_bytes(testing::weight_and_activation(), machine(150), {}), 0);
}

TEST(WriteBudget, HostMemoryTakesWhatTheDrivesMayNot) {
  const trace::Trace trace = testing::weight_and_activation();
  EXPECT_EQ(*min_write_budget_bytes(trace, machine(149, 40), {}), 0);
  testing::PlannedCase{trace, machine(149, 40), with_budget(0)}.planned();
}

TEST(WriteBudget, AFailureThatIsNotTheBudgetsStaysWhatItIs) {
  const trace::Trace trace = testing::weight_and_activation();
  EXPECT_EQ(plan(trace, machine(59), with_budget(0)).status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(min_write_budget_bytes(trace, machine(59), {}).status().code(),
            ErrorCode::kOutOfMemory);
}

// Bytes that have to cross the link in so many iterations, at least.
int64_t min_written_bytes(const trace::Trace& trace, const hardware::Hardware& hardware,
                          int64_t iterations) {
  const int64_t op_count = iterations * static_cast<int64_t>(trace.ops.size());
  return min_writes(trace::TraceIndex(trace), hardware.device_memory_bytes, 0, op_count).back();
}

class WriteBudgets : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    testing::Random random(GetParam() + 9'000);
    testing::GeneratedTraceOptions options;
    options.op_count = random.scaled(2, 300);
    options.persistent_count = random.between(0, 12);
    trace_ = testing::generated_trace(GetParam(), options);
    hardware_ = testing::generated_hardware(GetParam(), trace_);
  }

  int64_t written_within(int64_t budget_bytes) const {
    const testing::PlannedCase given{trace_, hardware_, with_budget(budget_bytes)};
    return given.run().ssd_bytes_written;
  }

  trace::Trace trace_;
  hardware::Hardware hardware_;
};

TEST_P(WriteBudgets, EveryBudgetFromTheLeastOnIsKept) {
  const int64_t least_bytes = *min_write_budget_bytes(trace_, hardware_, {});
  EXPECT_LE(written_within(least_bytes), least_bytes);
  const int64_t free_bytes = written_within(std::numeric_limits<int64_t>::max() / 4);
  for (int64_t part : {4, 2}) {
    const int64_t budget_bytes =
        least_bytes + std::max<int64_t>(0, free_bytes - least_bytes) / part;
    EXPECT_LE(written_within(budget_bytes), budget_bytes);
  }
}

TEST_P(WriteBudgets, NoPlanWritesLessThanHasToCrossTheLink) {
  hardware_.host.capacity_bytes = 0;  // else it takes some of them
  EXPECT_GE(4 * *min_write_budget_bytes(trace_, hardware_, {}),
            min_written_bytes(trace_, hardware_, 4));
}

INSTANTIATE_TEST_SUITE_P(Seeds, WriteBudgets, ::testing::Range<uint64_t>(0, 60));

TEST(WriteBudgetOfALlama, CostsTimeByAndBy) {
  constexpr PlannerOptions kOnlyMoves = {.recompute = Recompute::kOff};
  testing::PlannedCase given = testing::case_of("l8", "h100_ssd");
  const auto min_bytes = [&](int64_t iterations) {
    return min_written_bytes(given.trace, given.hardware, iterations);
  };
  const simulate::Run free = given.run(kOnlyMoves);
  const int64_t least_bytes = *min_write_budget_bytes(given.trace, given.hardware, {});
  ASSERT_LT(least_bytes, free.ssd_bytes_written);
  EXPECT_LE(static_cast<double>(least_bytes),
            1.02 * static_cast<double>(min_bytes(4) - min_bytes(3)));
  double faster_ns = static_cast<double>(free.step_ns);
  for (double part : {0.5, 0.0}) {
    given.limits = with_budget(
        least_bytes +
        static_cast<int64_t>(part * static_cast<double>(free.ssd_bytes_written - least_bytes)));
    const simulate::Run run = given.run(kOnlyMoves);
    EXPECT_LE(run.ssd_bytes_written, *given.limits.write_budget_bytes);
    EXPECT_GE(static_cast<double>(run.step_ns), 0.99 * faster_ns) << part;
    faster_ns = static_cast<double>(run.step_ns);
  }
}

}  // namespace
}  // namespace teraio::planner
