// The options that the planning commands share: a trace, a machine, limits and the effort.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "hardware/hardware.h"
#include "planner/planner.h"
#include "trace/trace.h"

namespace teraio::cli {

struct Inputs {
  trace::Trace trace;
  hardware::Hardware hardware;
  plan::Limits limits;
};

// Adds --trace, --hardware, --device-budget and --host-limit to a subcommand. The object must live
// until the subcommand has run.
class InputOptions {
 public:
  explicit InputOptions(CLI::App& command);
  // Adds --write-budget as well.
  void add_write_budget(CLI::App& command);

  // Reads and checks the files and sizes that the options name. Calls fail() when one is invalid.
  Inputs read() const;

 private:
  std::string trace_;
  std::string hardware_;
  std::string device_budget_;
  std::string host_limit_;
  std::string write_budget_;
};

// Adds --effort and --time-limit to a subcommand. The object must live until the subcommand has
// run.
class EffortOptions {
 public:
  explicit EffortOptions(CLI::App& command);

  // Adds --recompute and --prefer as well.
  void add_recompute(CLI::App& command);

  planner::PlannerOptions planner_options() const;

 private:
  planner::Effort effort_ = planner::Effort::kFast;
  planner::Recompute recompute_ = planner::Recompute::kOff;
  planner::Prefer prefer_ = planner::Prefer::kSpeed;
  double time_limit_s_ = 30;
};

}  // namespace teraio::cli
