// Plan files: broken ones are refused by field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_file.h"
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

// A trace whose op 1 reads what op 0 makes.
class ReplaysInAFile : public ::testing::Test {
 protected:
  std::filesystem::path path_ = std::filesystem::path(::testing::TempDir()) / "replays.json";
  trace::Trace trace_ = testing::weight_and_activation();

  void write(std::string_view text) { ASSERT_TRUE(write_text_file(path_, text).ok()); }
  void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(ReplaysInAFile, ComeBackAndNameNoTier) {
  const Plan plan{"test",
                  {testing::offload(0, 1, 2), testing::discard(1, 2), testing::recompute(1, 3)}};
  ASSERT_TRUE(write_plan(plan, trace_, path_).ok());
  const Result<Plan> copy = read_plan(path_, trace_);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(*copy, plan);
  const std::string text = *read_text_file(path_);
  EXPECT_THAT(text, HasSubstr("\"teraio-plan/2\""));
  EXPECT_THAT(text, HasSubstr("{\"tensor\":11,\"action\":\"recompute\",\"trigger_op\":3,"
                              "\"deadline_op\":3}"));
}

TEST_F(ReplaysInAFile, APlanWithoutThemIsVersionOne) {
  ASSERT_TRUE(write_plan({"test", {testing::offload(0, 1, 2)}}, trace_, path_).ok());
  EXPECT_THAT(*read_text_file(path_), HasSubstr("\"teraio-plan/1\""));
}

TEST_F(ReplaysInAFile, VersionOneHasNone) {
  write(R"({"format": "teraio-plan/1", "trace": "test", "migrations": [
           {"tensor": 11, "action": "discard", "trigger_op": 2, "deadline_op": 2}]})");
  EXPECT_THAT(read_plan(path_, trace_).status().message(),
              HasSubstr("migrations[0].action: expected offload, prefetch or drop"));
}

TEST_F(ReplaysInAFile, WhatMovesNamesATierInVersionTwoToo) {
  write(R"({"format": "teraio-plan/2", "trace": "test", "migrations": [
           {"tensor": 11, "action": "drop", "trigger_op": 2, "deadline_op": 2}]})");
  EXPECT_THAT(read_plan(path_, trace_).status().message(), HasSubstr("migrations[0].tier"));
  write(R"({"format": "teraio-plan/2", "trace": "test", "migrations": [
           {"tensor": 11, "action": "forget", "trigger_op": 2, "deadline_op": 2}]})");
  EXPECT_THAT(read_plan(path_, trace_).status().message(),
              HasSubstr("expected offload, prefetch, drop, discard or recompute"));
}

TEST_F(ReplaysInAFile, LaterVersionsAreRefused) {
  write(R"({"format": "teraio-plan/3", "trace": "test", "migrations": []})");
  EXPECT_THAT(read_plan(path_, trace_).status().message(),
              HasSubstr(R"(format: expected "teraio-plan/1" or "teraio-plan/2")"));
}

}  // namespace
}  // namespace teraio::plan
