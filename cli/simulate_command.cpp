// `teraio simulate`: predicts the execution of plans on a machine.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "analysis/planned_run.h"
#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "pattern_text.h"
#include "progress.h"
#include "run_text.h"
#include "simulate/run_file.h"
#include "simulate/simulator.h"

namespace teraio::cli {
namespace {

struct SimulateCommand {
  explicit SimulateCommand(CLI::App& command) : inputs(command, Traces::kSeveral), effort(command) {
    inputs.add_write_budget(command);
    effort.add_recompute(command);
    CLI::Option* const plan = command.add_option(
        "--plan", plans, "The plan to execute, one per trace (default: what `teraio plan` makes)");
    for (const char* of_planner : {"--effort", "--time-limit", "--recompute", "--prefer"})
      command.get_option(of_planner)->excludes(plan);
    command.add_flag("--json", json, "Print one JSON object");
    command.add_option(
        "--timeline", timelines,
        "Write Chrome trace events to this file, for ui.perfetto.dev; one per trace");
  }
  void run() const;
  Result<teraio::simulate::Run> run_of(const Inputs& given, size_t i) const;
  void print(const std::vector<simulate::PatternRun>& runs, const Inputs& first) const;

  InputOptions inputs;
  EffortOptions effort;
  std::vector<std::string> plans;
  std::vector<std::string> timelines;
  bool json = false;
};

std::string text_of(const teraio::simulate::Run& run) {
  std::string text = step_text(run);
  text += fmt::format("stalled {}", format_duration(run.stall_ns));
  for (const auto& [cause, stall_ns] : run.stall_by_cause_ns)
    if (stall_ns > 0) text += fmt::format(", {} for {}", format_duration(stall_ns), cause);
  return text + "\n\n" + traffic_text(run);
}

Result<teraio::simulate::Run> run_of_plan(const Inputs& given, const std::string& path) {
  const Result<plan::Plan> plan = plan::read_plan(path, given.trace);
  if (!plan.ok()) return plan.status();
  Result<teraio::simulate::Run> run =
      simulate::simulate(given.trace, given.hardware, given.limits, *plan);
  if (!run.ok()) return run.status().with_context(path);
  return run;
}

Result<teraio::simulate::Run> SimulateCommand::run_of(const Inputs& given, size_t i) const {
  if (!plans.empty()) return run_of_plan(given, plans[i]);
  return analysis::planned_run(given.trace, {given.hardware, given.limits},
                               effort.planner_options());
}

void SimulateCommand::print(const std::vector<simulate::PatternRun>& runs,
                            const Inputs& first) const {
  if (runs.size() == 1)
    fmt::print("{}", json ? run_json(runs.front().run) : text_of(runs.front().run));
  else
    fmt::print("{}", json ? patterns_json(runs) : patterns_text(runs, first.hardware));
}

void SimulateCommand::run() const {
  const std::vector<Inputs> patterns = inputs.read_patterns();
  if (!plans.empty()) expect_one_per_trace("--plan", plans, patterns);
  if (!timelines.empty()) expect_one_per_trace("--timeline", timelines, patterns);
  std::vector<simulate::PatternRun> runs;
  Progress progress;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Inputs& given = patterns[i];
    progress.show(fmt::format("{} ...", given.trace_file));
    const Result<teraio::simulate::Run> run = run_of(given, i);
    progress.show("");
    if (!run.ok()) fail(failure_of(run.status(), given, patterns.size()));
    runs.push_back({given.trace_file, given.share, *run});
    if (timelines.empty()) continue;
    if (const Status written = write_timeline(*run, given.trace, timelines[i]); !written.ok())
      fail(written);
  }
  print(runs, patterns.front());
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("simulate", "Predict the execution of a plan on a machine");
  auto options = std::make_shared<SimulateCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
