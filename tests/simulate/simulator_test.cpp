#include "simulate/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/simulation.h"

namespace teraio::simulate {
namespace {

using namespace testing;
using ::testing::StartsWith;

// A tensor `weight` that ops 0 and 3 read, 1000 bytes, while ops 1 and 2 need room for other
// things.
class SimulatorTest : public Simulation {
 protected:
  SimulatorTest() : Simulation(round_machine(2000, 10'000)) {
    weight = builder.persistent(1000);
    builder.op(100, {.reads = {weight}});
    builder.op(2000, {.workspace_bytes = 1000});
    builder.op(2000);
    builder.op(100, {.reads = {weight}});
  }

  trace::TensorIndex weight;
};

TEST_F(SimulatorTest, EverythingFitsIsIdeal) {
  const simulate::Run result = run({});
  EXPECT_EQ(result.ideal_ns, 4200);
  EXPECT_EQ(result.step_ns, 4200);
  EXPECT_EQ(result.stall_ns, 0);
  EXPECT_EQ(result.device_peak_bytes, 2000);
  EXPECT_EQ(result.op_start_ns, (std::vector<int64_t>{0, 100, 2100, 4100}));
}

TEST_F(SimulatorTest, DeviceBudgetLimitsTheHardware) {
  limits.device_budget_bytes = 1999;
  EXPECT_THAT(failure({}), StartsWith("device memory"));
}

TEST_F(SimulatorTest, AnOpWaitsForTheWriteThatMakesRoom) {
  limits.device_budget_bytes = 1500;
  const simulate::Run result = run({offload(weight, 1, 1), prefetch(weight, 2, 3)});
  EXPECT_EQ(result.stall_ns, 1000);
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallMemory), 1000);
  EXPECT_EQ(result.ssd_bytes_written, 1000);
  EXPECT_EQ(result.ssd_bytes_read, 1000);
  EXPECT_EQ(result.ssd_peak_bytes, 1000);
  EXPECT_EQ(result.device_peak_bytes, 1000);
}

TEST_F(SimulatorTest, AnOpWaitsForItsTensor) {
  limits.device_budget_bytes = 1500;
  const simulate::Run result = run({offload(weight, 1, 1), prefetch(weight, 3, 3)});
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallMemory), 1000);
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallRead), 1000);
  EXPECT_EQ(result.op_start_ns[3], 100 + 1000 + 2000 + 2000 + 1000);
}

TEST_F(SimulatorTest, EachTransferPaysTheLatencyFirst) {
  limits.device_budget_bytes = 1500;
  hardware.request_latency_ns = 70;
  EXPECT_EQ(run({offload(weight, 1, 1), prefetch(weight, 3, 3)}).stall_ns, 2140);
}

TEST_F(SimulatorTest, AReadWaitsForTheSameTensorsWrite) {
  const simulate::Run result = run({offload(weight, 1, 1), prefetch(weight, 1, 3)});
  ASSERT_EQ(result.transfers.size(), 2);
  EXPECT_EQ(result.transfers[0].end_ns, 1100);
  EXPECT_EQ(result.transfers[1].issue_ns, 100);
  EXPECT_EQ(result.transfers[1].start_ns, 1100);
}

TEST_F(SimulatorTest, ADropOfACleanCopyWritesNothing) {
  builder.op(10);
  builder.op(10, {.writes = {weight}});
  limits.device_budget_bytes = 1500;
  const simulate::Run result = run(
      {offload(weight, 1, 1), prefetch(weight, 2, 3), drop(weight, 4, 5), prefetch(weight, 5, 5)});
  EXPECT_EQ(result.ssd_bytes_written, 1000);
  EXPECT_EQ(result.ssd_bytes_read, 2000);
}

TEST_F(SimulatorTest, FrozenTensorsAreOnTheirTierFromTheStart) {
  limits.device_budget_bytes = 1500;
  const simulate::Run result = run({drop(weight, 1, 1), prefetch(weight, 2, 3)});
  EXPECT_EQ(result.stall_ns, 0);
  EXPECT_EQ(result.ssd_bytes_written, 0);
  EXPECT_EQ(result.ssd_peak_bytes, 1000);
}

TEST_F(SimulatorTest, AnIdlePeriodMayReachIntoTheNextIteration) {
  const simulate::Run result =
      run({drop(weight, 1, 1), prefetch(weight, 2, 3), drop(weight, 0, 0), prefetch(weight, 0, 0)});
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallRead), 1000);  // what left at op 0 is needed there
}

TEST_F(SimulatorTest, APrefetchIssuedAtTheEndArrivesInTheNextIteration) {
  TraceBuilder other;
  const trace::TensorIndex early = other.persistent(3000);
  other.op(1000, {.reads = {early}});
  other.op(1000);
  other.op(1000);
  const auto result = simulate(other.trace(), hardware = round_machine(3000), {},
                               {"test", {drop(early, 1, 1), prefetch(early, 2, 0)}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stall_ns, 2000);
  EXPECT_EQ(result->transfers[0].start_ns, -1000);  // began in the iteration before
}

TEST_F(SimulatorTest, KeptHostCopiesCountAsHostUse) {
  hardware.host.capacity_bytes = 1500;
  const trace::TensorIndex other = builder.persistent(1000);
  builder.op(10, {.writes = {other}});
  limits.device_budget_bytes = 4000;
  const std::vector<plan::Migration> keeping = {
      drop(weight, 1, 1, plan::Tier::kHost), prefetch(weight, 2, 3, plan::Tier::kHost),
      offload(other, 0, 0, plan::Tier::kHost), prefetch(other, 1, 4, plan::Tier::kHost)};
  EXPECT_THAT(failure(keeping), StartsWith("host capacity: migrations[2]"));
  hardware.host.capacity_bytes = 2000;
  EXPECT_EQ(run(keeping).host_peak_bytes, 2000);
}

// A tensor that op 1 uses last, that op 3 wants out of the way, and that op 4 frees. Then another
// like it.
class FreedLaterTest : public SimulatorTest {
 protected:
  FreedLaterTest() {
    builder = TraceBuilder();
    hardware = round_machine(1000);
    hardware.drives[0].capacity_bytes = 1000;
    for (trace::TensorIndex* tensor : {&first, &second}) {
      *tensor = builder.transient(1000);
      const auto op = builder.op(100, {.writes = {*tensor}});
      builder.op(100, {.reads = {*tensor}});
      builder.op(2000);
      builder.op(100, {.workspace_bytes = 1000});
      EXPECT_EQ(builder.op(100, {.frees = {*tensor}}), op + 4);
    }
  }
  trace::TensorIndex first, second;
};

TEST_F(FreedLaterTest, LeavesForGoodAndGivesItsRoomBack) {
  const simulate::Run result = run({offload(first, 2, 4), offload(second, 7, 9)});
  EXPECT_EQ(result.stall_ns, 0);
  EXPECT_EQ(result.ssd_bytes_written, 2000);
  EXPECT_EQ(result.ssd_bytes_read, 0);
  EXPECT_EQ(result.device_peak_bytes, 1000);
  EXPECT_EQ(result.ssd_peak_bytes, 1000) << "the first one's copy has died with it";
}

TEST_F(FreedLaterTest, AnOpWaitsForTheWrite) {
  EXPECT_EQ(run({offload(first, 3, 4), offload(second, 7, 9)}).stall_ns, 1000);
}

TEST_F(FreedLaterTest, AValidCopyIsEnough) {
  const trace::TensorIndex clean = builder.transient(1000);
  builder.op(100, {.writes = {clean}});
  builder.op(2000);
  builder.op(100, {.reads = {clean}});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.frees = {clean}});
  const simulate::Run result =
      run({offload(first, 2, 4), offload(second, 7, 9), offload(clean, 11, 12),
           prefetch(clean, 12, 12), drop(clean, 13, 14)});
  EXPECT_EQ(result.ssd_bytes_written, 3000);
  EXPECT_EQ(result.ssd_bytes_read, 1000);
  EXPECT_EQ(result.ssd_peak_bytes, 1000);
  EXPECT_EQ(result.stall_ns, 1000) << "for the read";
}

// Two tensors are freed when one is half written and the other waits for that.
TEST_F(SimulatorTest, AWriteOfWhatIsFreedStops) {
  builder = TraceBuilder();
  const trace::TensorIndex half_written = builder.transient(1000);
  const trace::TensorIndex waiting = builder.transient(500);
  const trace::TensorIndex next = builder.transient(1500);
  builder.op(100, {.writes = {half_written, waiting}});
  builder.op(500, {.frees = {half_written, waiting}});
  builder.op(100, {.writes = {next}});
  builder.op(2000);
  builder.op(100, {.reads = {next}});
  hardware = round_machine(1500);
  hardware.drives[0].capacity_bytes = 1500;
  const simulate::Run result = run({offload(half_written, 1, 1), offload(waiting, 1, 1),
                                    offload(next, 3, 4), prefetch(next, 4, 4)});
  ASSERT_EQ(result.transfers.size(), 2u);
  EXPECT_EQ(result.transfers[0].tensor, next);
  EXPECT_EQ(result.transfers[0].start_ns, 700);
  EXPECT_EQ(result.stall_ns, 1500) << "for the read of what took their place";
}

// Only an iteration that begins with the tensor on the device could execute this plan, and it ends
// with the tensor offloaded.
TEST_F(SimulatorTest, APlanThatCannotRepeatIsRefused) {
  builder = TraceBuilder();
  weight = builder.persistent(1000);
  builder.op(10, {.reads = {weight}});
  builder.op(10, {.writes = {weight}});
  builder.op(10);
  builder.op(10, {.reads = {weight}});
  builder.op(10);
  EXPECT_THAT(failure({offload(weight, 2, 2), prefetch(weight, 3, 3), drop(weight, 4, 4)}),
              StartsWith("not resident: tensor 0 is offloaded when op 0"));
}

// Two tensors that leave at once and come back at once.
class TwoTensorsTest : public ::testing::Test {
 protected:
  TwoTensorsTest() {
    a = builder.persistent(1000);
    b = builder.persistent(1000);
    builder.op(10, {.writes = {a, b}});
    builder.op(5000);
    builder.op(5000);
    builder.op(10, {.reads = {a}});
    builder.op(10, {.reads = {b}});
  }
  simulate::Run run(std::vector<plan::Migration> migrations) {
    Result<simulate::Run> result = simulate(builder.trace(), hardware, {}, {"test", migrations});
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : simulate::Run();
  }
  static TransferRecord find(const simulate::Run& run, trace::TensorIndex tensor,
                             plan::Action action) {
    for (const TransferRecord& record : run.transfers)
      if (record.tensor == tensor && record.action == action) return record;
    return {};
  }
  TraceBuilder builder;
  hardware::Hardware hardware = round_machine(10'000, 10'000);
  trace::TensorIndex a, b;
};

TEST_F(TwoTensorsTest, WritesGoInIssueOrder) {
  const simulate::Run result =
      run({offload(b, 1, 2), offload(a, 1, 1), prefetch(a, 3, 3), prefetch(b, 3, 4)});
  EXPECT_EQ(find(result, b, plan::Action::kOffload).end_ns, 1010);
  EXPECT_EQ(find(result, a, plan::Action::kOffload).end_ns, 2010);
}

TEST_F(TwoTensorsTest, AWriteWhoseRoomTheNextOpWaitsForGoesFirst) {
  const trace::TensorIndex c = builder.persistent(1000);
  builder.op(10, {.writes = {c}});
  const trace::TensorIndex big = builder.transient(9000);
  builder.op(10, {.writes = {big}});
  // All three are issued when op 6 comes to wait for 2000 bytes; a's room is said to be for it.
  const simulate::Run result = run({offload(c, 6, 0), offload(b, 6, 0), offload(a, 6, 6),
                                    prefetch(a, 0, 0), prefetch(b, 0, 0), prefetch(c, 1, 5)});
  EXPECT_EQ(find(result, a, plan::Action::kOffload).end_ns,
            find(result, c, plan::Action::kOffload).start_ns);
  EXPECT_LT(find(result, b, plan::Action::kOffload).start_ns, 0);  // done in the next iteration
}

TEST_F(TwoTensorsTest, ReadsGoByDeadline) {
  const simulate::Run result =
      run({offload(a, 1, 1), offload(b, 1, 1), prefetch(b, 2, 4), prefetch(a, 2, 3)});
  EXPECT_EQ(find(result, a, plan::Action::kPrefetch).start_ns, 5010);
  EXPECT_EQ(find(result, b, plan::Action::kPrefetch).start_ns, 6010);
}

TEST_F(TwoTensorsTest, TiersMoveAtOnceAndShareTheLink) {
  hardware.device_link = {kBytesPerNs, kBytesPerNs};
  const simulate::Run result = run({offload(a, 1, 1, plan::Tier::kHost), offload(b, 1, 1),
                                    prefetch(a, 2, 3, plan::Tier::kHost), prefetch(b, 2, 4)});
  EXPECT_EQ(find(result, a, plan::Action::kOffload).end_ns, 2010);
  EXPECT_EQ(find(result, b, plan::Action::kOffload).end_ns, 2010);
  EXPECT_EQ(find(result, a, plan::Action::kPrefetch).end_ns, 7010);
}

TEST_F(TwoTensorsTest, SharedMediaMoveEachDirectionAtHalfTheRate) {
  hardware.drives[0].duplex = 1.0;
  const simulate::Run alone = run({offload(a, 1, 1), prefetch(a, 2, 3)});
  EXPECT_EQ(find(alone, a, plan::Action::kPrefetch).end_ns, 6010);
  const simulate::Run both =
      run({offload(a, 1, 1), prefetch(a, 2, 3), offload(b, 2, 2), prefetch(b, 3, 4)});
  EXPECT_EQ(find(both, a, plan::Action::kPrefetch).end_ns, 7010);
  EXPECT_EQ(find(both, b, plan::Action::kOffload).end_ns, 7010);
}

TEST_F(TwoTensorsTest, APrefetchThatIsNotUrgentLeavesRoomForTheNextOp) {
  hardware.device_memory_bytes = 2000;
  TraceBuilder tight;
  const trace::TensorIndex weight = tight.persistent(1500);
  tight.op(1000, {.reads = {weight}});
  tight.op(1000);
  tight.op(1000, {.workspace_bytes = 1000});
  tight.op(1000);
  const auto result =
      simulate(tight.trace(), hardware, {}, {"test", {drop(weight, 1, 1), prefetch(weight, 1, 0)}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->transfers.front().start_ns, -1000);  // after op 2
  EXPECT_EQ(result->stall_ns, 500);
}

TEST_F(TwoTensorsTest, OneSimulatorRunsManyPlans) {
  const Simulator simulator(builder.trace(), hardware, {});
  const plan::Plan moving = {"test", {offload(a, 1, 1), prefetch(a, 2, 3)}};
  const Result<simulate::Run> first = simulator.run(moving);
  ASSERT_TRUE(simulator.run({"test", {}}).ok());
  const Result<simulate::Run> again = simulator.run(moving);
  EXPECT_EQ(*first, *again);
}

}  // namespace
}  // namespace teraio::simulate
