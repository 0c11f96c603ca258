// The options that the planning commands share: traces, a machine, limits and the effort.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/machine_config.h"
#include "hardware/hardware.h"
#include "planner/planner.h"
#include "trace/trace.h"

namespace teraio::cli {

struct Inputs {
  trace::Trace trace;
  hardware::Hardware hardware;
  plan::Limits limits;
  std::string trace_file;
  double share = 1;  // of the steps of a program whose steps differ; all of them add up to 1
};

// The number of traces that a subcommand takes.
enum class Traces : uint8_t {
  kOne,
  kSeveral,  // one per pattern of a program whose steps differ, with their shares
};

// Adds --trace, --hardware, --device-budget and --host-limit to a subcommand, and --shares where it
// takes several traces. The object must live until the subcommand has run.
class InputOptions {
 public:
  explicit InputOptions(CLI::App& command, Traces traces = Traces::kOne);
  // Adds --write-budget as well.
  void add_write_budget(CLI::App& command);
  // Lets the command run without --trace and --hardware; read() is not called then.
  void allow_none();

  // Calls fail() when one of these files, which will be written, is given twice or is an input: one
  // of these options', or of `more_inputs`.
  void expect_outputs(const std::vector<std::string>& outputs,
                      const std::vector<std::string>& more_inputs = {}) const;

  // Reads and checks the files and sizes that the options name. Calls fail() when one is invalid.
  Inputs read() const;
  // The same for Traces::kSeveral. Returns at least one; they differ in the trace, its file and its
  // share.
  std::vector<Inputs> read_patterns() const;

 private:
  analysis::MachineConfig read_machine() const;
  std::vector<double> read_shares() const;

  CLI::Option* trace_option_ = nullptr;
  CLI::Option* hardware_option_ = nullptr;
  std::vector<std::string> traces_;
  std::string shares_;
  std::string hardware_;
  std::string device_budget_;
  std::string host_limit_;
  std::string write_budget_;
};

// Accepts finite numbers above 0.
CLI::Validator positive_number();

// Calls fail() unless an option that takes a file per trace has as many values as there are traces.
void expect_one_per_trace(std::string_view option, const std::vector<std::string>& files,
                          const std::vector<Inputs>& patterns);

// Returns the failure of one of several patterns, which names its trace; with a single one, the
// failure as it is.
Status failure_of(const Status& status, const Inputs& pattern, size_t pattern_count);

// Adds --effort and --time-limit to a subcommand. The object must live until the subcommand has
// run.
class EffortOptions {
 public:
  explicit EffortOptions(CLI::App& command);

  // Adds --recompute and --prefer as well.
  void add_recompute(CLI::App& command);

  const planner::PlannerOptions& planner_options() const { return options_; }

 private:
  planner::PlannerOptions options_;
};

}  // namespace teraio::cli
