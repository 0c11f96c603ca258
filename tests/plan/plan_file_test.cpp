// Plan files: broken ones are refused by field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/scenario.h"
#include "testing/test_files.h"

namespace teraio::plan {
namespace {

using ::testing::HasSubstr;

TEST(PlanFile, BadFilesAreRefusedByFieldAndExpectation) {
  const Result<trace::Trace> trace =
      trace::read_trace(testing::test_data("corpus/trace/good.json"));
  ASSERT_TRUE(trace.ok());
  const std::pair<const char*, const char*> cases[] = {
      {"other_trace.json", "trace: expected a plan for \"t\""},
      {"op_out_of_range.json", "migrations[0].trigger_op: expected one of the trace's 2 ops"},
      {"unknown_action.json", "migrations[0].action: expected offload, prefetch or drop"},
      {"unknown_tier.json", "migrations[0].tier: expected ssd or host"},
      {"unknown_tensor.json", "migrations[0].tensor: expected the id of a tensor"},
      {"migrations_text.json", "migrations: expected an array"}};
  for (const auto& [name, expected] : cases) {
    const Result<Plan> plan = read_plan(testing::test_data("corpus/plan") / name, *trace);
    ASSERT_FALSE(plan.ok()) << name;
    EXPECT_THAT(plan.status().message(), HasSubstr(name));
    EXPECT_THAT(plan.status().message(), HasSubstr(expected));
  }
  const Result<Plan> good = read_plan(testing::test_data("corpus/plan/good.json"), *trace);
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(good->migrations[0].tensor, 0);  // id 7 is the trace's first tensor
}

}  // namespace
}  // namespace teraio::plan
