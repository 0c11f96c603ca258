#include "inputs.h"

#include <map>

#include "commands.h"
#include "trace/trace_file.h"

namespace teraio::cli {
namespace {

const std::map<std::string, planner::Effort> kEfforts = {{"fast", planner::Effort::kFast},
                                                         {"best", planner::Effort::kBest}};

const std::map<std::string, planner::Recompute> kRecompute = {{"off", planner::Recompute::kOff},
                                                              {"cheap", planner::Recompute::kCheap},
                                                              {"all", planner::Recompute::kAll}};
const std::map<std::string, planner::Prefer> kPrefer = {{"speed", planner::Prefer::kSpeed},
                                                        {"wear", planner::Prefer::kWear}};

std::optional<int64_t> limit_or_fail(std::string_view option, const std::string& text,
                                     int64_t whole_bytes) {
  if (text.empty()) return std::nullopt;
  return size_or_fail(option, text, whole_bytes);
}

}  // namespace

InputOptions::InputOptions(CLI::App& command) {
  command.add_option("--trace", trace_, "Trace of one iteration (.json or .json.gz)")->required();
  command.add_option("--hardware", hardware_, "Hardware file of the machine (.json)")->required();
  command.add_option("--device-budget", device_budget_,
                     "Device memory to use, such as 40GB or 50% (default: all)");
  command.add_option("--host-limit", host_limit_,
                     "Host memory to use, such as 0 or 128GB (default: all)");
}

void InputOptions::add_write_budget(CLI::App& command) {
  command.add_option("--write-budget", write_budget_,
                     "Bytes that an iteration may write to the drives, such as 200GB (default: "
                     "no limit)");
}

Inputs InputOptions::read() const {
  Inputs inputs;
  inputs.trace = value_or_fail(trace::read_trace(trace_));
  inputs.hardware = value_or_fail(hardware::read_hardware(hardware_));
  inputs.limits.device_budget_bytes =
      limit_or_fail("--device-budget", device_budget_, inputs.hardware.device_memory_bytes);
  inputs.limits.host_limit_bytes =
      limit_or_fail("--host-limit", host_limit_, inputs.hardware.host.capacity_bytes);
  inputs.limits.write_budget_bytes = limit_or_fail("--write-budget", write_budget_, 0);
  return inputs;
}

EffortOptions::EffortOptions(CLI::App& command) {
  command.add_option("--effort", effort_, "Planning effort: fast (default) or best")
      ->transform(CLI::CheckedTransformer(kEfforts));
  command
      .add_option("--time-limit", time_limit_s_,
                  "Seconds after which the planner returns its best plan so far (default: 30)")
      ->check(CLI::PositiveNumber);
}

void EffortOptions::add_recompute(CLI::App& command) {
  command
      .add_option("--recompute", recompute_,
                  "Discard tensors and make them again: off (default, and all that a run can do), "
                  "cheap (where that takes less than a tenth of moving them) or all")
      ->transform(CLI::CheckedTransformer(kRecompute));
  command
      .add_option("--prefer", prefer_,
                  "The fastest plan (speed, default), or the one that writes least to the drives "
                  "of those at most half a percent slower (wear)")
      ->transform(CLI::CheckedTransformer(kPrefer));
}

planner::PlannerOptions EffortOptions::planner_options() const {
  planner::PlannerOptions options;
  options.recompute = recompute_;
  options.prefer = prefer_;
  options.effort = effort_;
  options.time_limit_ns = static_cast<int64_t>(time_limit_s_ * 1e9);
  return options;
}

}  // namespace teraio::cli
