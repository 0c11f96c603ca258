// The base of the simulator's tests: one trace, machine and limits, and runs of plans on them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulate/scenario.h"
#include "simulate/simulator.h"

namespace teraio::testing {

class Simulation : public ::testing::Test {
 protected:
  explicit Simulation(const hardware::Hardware& machine) : hardware(machine) {}

  simulate::Run run(const std::vector<plan::Migration>& migrations) {
    const Result<simulate::Run> result = simulated(migrations);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : simulate::Run();
  }
  // Why the plan cannot be simulated.
  std::string failure(const std::vector<plan::Migration>& migrations) {
    const Result<simulate::Run> result = simulated(migrations);
    EXPECT_FALSE(result.ok()) << "simulated in " << (result.ok() ? result->step_ns : 0) << " ns";
    return result.status().message();
  }

  TraceBuilder builder;
  hardware::Hardware hardware;
  plan::Limits limits;

 private:
  Result<simulate::Run> simulated(const std::vector<plan::Migration>& migrations) {
    return simulate::simulate(builder.trace(), hardware, limits, {"test", migrations});
  }
};

}  // namespace teraio::testing
