// `teraio simulate`: predicts the execution of plans on a machine.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "pattern_text.h"
#include "plan/validator.h"
#include "planner/planner.h"
#include "progress.h"
#include "run_text.h"
#include "simulate/run_file.h"
#include "simulate/simulator.h"

namespace teraio::cli {
namespace {

struct Executed {
  plan::Plan plan;
  teraio::simulate::Run run;
};

struct SimulateCommand {
  explicit SimulateCommand(CLI::App& command) : inputs(command, Traces::kSeveral), effort(command) {
    inputs.add_write_budget(command);
    effort.add_recompute(command);
    CLI::Option* const plan =
        command
            .add_option("--plan", plans,
                        "The plan to execute, one per trace (default: what `teraio plan` makes)")
            ->type_name("FILE");
    for (const char* of_planner : {"--effort", "--time-limit", "--recompute", "--prefer"})
      command.get_option(of_planner)->excludes(plan);
    command.add_flag("--json", json, "Print one JSON object");
    command
        .add_option("--timeline", timelines,
                    "Write Chrome trace events to this file, for ui.perfetto.dev; one per trace")
        ->type_name("FILE");
  }
  void run() const;
  Result<plan::Plan> plan_of(const Inputs& given, size_t i) const;
  Result<Executed> executed(const Inputs& given, size_t i) const;
  void print(const std::vector<Inputs>& patterns, const std::vector<Executed>& all) const;

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

Result<plan::Plan> SimulateCommand::plan_of(const Inputs& given, size_t i) const {
  if (!plans.empty()) return plan::read_plan(plans[i], given.trace);
  Result<plan::Plan> made =
      planner::plan(given.trace, given.hardware, given.limits, effort.planner_options());
  if (made.ok())
    TERAIO_RETURN_IF_ERROR(validate_plan(*made, given.trace, given.hardware, given.limits));
  return made;
}

Result<Executed> SimulateCommand::executed(const Inputs& given, size_t i) const {
  Result<plan::Plan> plan = plan_of(given, i);
  if (!plan.ok()) return plan.status();
  Result<teraio::simulate::Run> run =
      simulate::simulate(given.trace, given.hardware, given.limits, *plan);
  if (!run.ok()) return plans.empty() ? run.status() : run.status().with_context(plans[i]);
  if (!timelines.empty()) TERAIO_RETURN_IF_ERROR(write_timeline(*run, given.trace, timelines[i]));
  return Executed{std::move(*plan), std::move(*run)};
}

void SimulateCommand::run() const {
  inputs.expect_outputs(timelines, plans);
  const std::vector<Inputs> patterns = inputs.read_patterns();
  if (!plans.empty()) expect_one_per_trace("--plan", plans, patterns);
  if (!timelines.empty()) expect_one_per_trace("--timeline", timelines, patterns);
  std::vector<Executed> all;
  Progress progress;
  for (size_t i = 0; i < patterns.size(); ++i) {
    progress.show(fmt::format("{} ...", patterns[i].trace_file));
    Result<Executed> done = executed(patterns[i], i);
    progress.show("");
    if (!done.ok()) fail(failure_of(done.status(), patterns[i], patterns.size()));
    all.push_back(std::move(*done));
  }
  print(patterns, all);
}

void SimulateCommand::print(const std::vector<Inputs>& patterns,
                            const std::vector<Executed>& all) const {
  if (all.size() == 1) {
    const teraio::simulate::Run& run = all.front().run;
    fmt::print("{}", json ? run_json(run) : text_of(run));
    return;
  }
  std::vector<PlannedPattern> planned;
  for (size_t i = 0; i < all.size(); ++i) planned.push_back({patterns[i], all[i].plan, all[i].run});
  const PatternsPrediction prediction = predict(planned);
  fmt::print("{}", json ? patterns_json(prediction.runs, prediction.changes)
                        : text_of(prediction, patterns.front().hardware));
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("simulate", "Predict the step time of a plan on a machine");
  auto options = std::make_shared<SimulateCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
