// A trace on a machine: plans for it, which must be valid, and their runs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "plan/validator.h"
#include "planner/planner.h"
#include "simulate/simulator.h"
#include "testing/test_files.h"
#include "trace/trace_file.h"

namespace teraio::testing {

struct PlannedCase {
  trace::Trace trace;
  hardware::Hardware hardware;
  plan::Limits limits = {};

  plan::Plan planned(const planner::PlannerOptions& options = {}) const {
    return valid(planner::plan(trace, hardware, limits, options));
  }
  plan::Plan valid(const Result<plan::Plan>& plan) const {
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return {};
    const Status status = validate_plan(*plan, trace, hardware, limits);
    EXPECT_TRUE(status.ok()) << status.message();
    return *plan;
  }
  simulate::Run run_of(const plan::Plan& plan) const {
    const Result<simulate::Run> run = simulate::simulate(trace, hardware, limits, plan);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? *run : simulate::Run();
  }
  simulate::Run run(const planner::PlannerOptions& options = {}) const {
    return run_of(planned(options));
  }
  int64_t step_ns(const planner::PlannerOptions& options = {}) const {
    return run(options).step_ns;
  }
};

// Of the files in tests/data/traces.
inline PlannedCase case_of(const std::string& trace, const std::string& hardware) {
  const std::filesystem::path traces = test_data("traces");
  Result<trace::Trace> read = trace::read_trace(traces / (trace + ".json.gz"));
  Result<hardware::Hardware> machine = hardware::read_hardware(traces / (hardware + ".json"));
  EXPECT_TRUE(read.ok() && machine.ok()) << trace << " on " << hardware;
  return {std::move(read).value(), std::move(machine).value()};
}

}  // namespace teraio::testing
