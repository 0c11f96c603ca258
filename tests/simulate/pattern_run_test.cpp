// The mean step of a program whose steps differ, by hand.
#include "simulate/pattern_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "simulate/run_file.h"
#include "simulate/simulator.h"

namespace teraio::simulate {
namespace {

Run a_run(int64_t ideal_ns, int64_t read_stall_ns, int64_t written_bytes, int64_t peak_bytes) {
  Run run;
  run.ideal_ns = ideal_ns;
  run.stall_ns = read_stall_ns;
  run.step_ns = ideal_ns + read_stall_ns;
  run.stall_by_cause_ns = {{kStallRead, read_stall_ns}, {kStallMemory, 0}, {kStallWrite, 0}};
  run.ssd_bytes_written = written_bytes;
  run.host_bytes_read = 2 * written_bytes;
  run.device_peak_bytes = peak_bytes;
  return run;
}

Run mean_of(const std::vector<PatternRun>& patterns) { return mean_run(patterns); }

TEST(MeanRun, OnePatternIsItsOwnMean) {
  const simulate::Run run = a_run(100, 20, 7, 50);
  const simulate::Run mean = mean_of({{"only", 3, run}});
  EXPECT_EQ(mean, run);
}

TEST(MeanRun, TimesAndBytesAreMeansAndPeaksAreTheHighest) {
  const std::vector<PatternRun> patterns = {{"short", 80, a_run(100, 0, 0, 50)},
                                            {"long", 20, a_run(600, 400, 1000, 40)}};
  const simulate::Run mean = mean_of(patterns);
  EXPECT_EQ(mean.ideal_ns, 200);
  EXPECT_EQ(mean.step_ns, 280);
  EXPECT_EQ(mean.stall_by_cause_ns.at(kStallRead), 80);
  EXPECT_EQ(mean.ssd_bytes_written, 200);
  EXPECT_EQ(mean.host_bytes_read, 400);
  EXPECT_EQ(mean.device_peak_bytes, 50);
  EXPECT_DOUBLE_EQ(fraction_of_ideal(mean), (80.0 * 100 + 20 * 600) / (80.0 * 100 + 20 * 1000));
}

TEST(MeanRun, OnlyTheRatiosOfSharesCount) {
  const simulate::Run a = a_run(100, 10, 5, 1), b = a_run(300, 30, 15, 2);
  const simulate::Run fractions = mean_of({{"a", 0.25, a}, {"b", 0.75, b}});
  const simulate::Run counts = mean_of({{"a", 10, a}, {"b", 30, b}});
  EXPECT_EQ(fractions, counts);
}

TEST(MeanRun, APatternThatNeverOccursCountsForItsPeakAlone) {
  const simulate::Run a = a_run(100, 10, 5, 1), never = a_run(900, 90, 45, 9);
  const simulate::Run mean = mean_of({{"a", 1, a}, {"never", 0, never}});
  EXPECT_EQ(mean.step_ns, a.step_ns);
  EXPECT_EQ(mean.device_peak_bytes, 9);
}

// Thirds do not fit into nanoseconds.
TEST(MeanRun, RoundedPartsAddUp) {
  simulate::Run a = a_run(100, 1, 0, 0), b = a_run(101, 0, 0, 0), c = a_run(101, 0, 0, 0);
  b.stall_by_cause_ns[kStallMemory] = b.stall_ns = 1;
  c.replay_ns = 2;
  b.step_ns = c.step_ns = 103;
  const simulate::Run mean = mean_of({{"a", 1, a}, {"b", 1, b}, {"c", 1, c}});
  int64_t causes_ns = 0;
  for (const auto& [cause, stall_ns] : mean.stall_by_cause_ns) causes_ns += stall_ns;
  EXPECT_EQ(mean.stall_ns, causes_ns);
  EXPECT_EQ(mean.step_ns, mean.ideal_ns + mean.replay_ns + mean.stall_ns);
}

TEST(PatternsJson, HasEachPatternTheMeansAndTheChanges) {
  const std::vector<PatternRun> patterns = {{"short.json", 0.75, a_run(100, 0, 0, 50)},
                                            {"long.json", 0.25, a_run(500, 400, 1000, 40)}};
  std::vector<PatternChange> changes = {{0, 1, {}, a_run(0, 80, 5, 60)}};
  const auto json = nlohmann::json::parse(patterns_json(patterns, changes));
  ASSERT_EQ(json["patterns"].size(), 2);
  EXPECT_EQ(json["patterns"][1]["trace"], "long.json");
  EXPECT_EQ(json["patterns"][1]["share"], 0.25);
  EXPECT_EQ(json["patterns"][1]["step_ns"], 900);
  EXPECT_EQ(json["mean"], nlohmann::json::parse(run_json(mean_run(patterns))));
  EXPECT_EQ(json["changes"][0]["traces"], (std::vector{"short.json", "long.json"}));
  EXPECT_EQ(json["changes"][0]["step_ns"], 80);
  EXPECT_EQ(json["mean_in_random_order"]["stall_ns"], 100 + 80 * 3 / 16);
}

TEST(PatternsJson, SaysWhyAChangeIsUnknown) {
  const std::vector<PatternRun> patterns = {{"a", 1, a_run(1, 1, 1, 1)},
                                            {"b", 1, a_run(2, 2, 2, 2)}};
  const std::vector<PatternChange> changes = {
      {0, 1, Status(ErrorCode::kInvalidArgument, "no room"), {}}};
  const auto json = nlohmann::json::parse(patterns_json(patterns, changes));
  EXPECT_EQ(json["changes"][0]["unknown"], "no room");
  EXPECT_TRUE(json["mean_in_random_order"].is_null());
}

}  // namespace
}  // namespace teraio::simulate
