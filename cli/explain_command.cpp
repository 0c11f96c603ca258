// `teraio explain`: shows where the time of a plan goes, and what would reduce it; or which steps
// of a run followed plans, and why the others did not.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "analysis/explanation.h"
#include "analysis/parallel_for.h"
#include "analysis/planned_run.h"
#include "analysis/write_trade_off.h"
#include "base/units.h"
#include "commands.h"
#include "drive_life.h"
#include "inputs.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "planner/replay_bounds.h"
#include "progress.h"
#include "run_explanation.h"
#include "simulate/simulator.h"
#include "table.h"

namespace teraio::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(int64_t part, int64_t whole) {
  return fmt::format(
      "{:.1f} %", whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

// Something that can be changed, and what to plan with then.
struct Change {
  std::string what;
  analysis::MachineConfig machine;
  planner::PlannerOptions options;
};

struct PlannedChange {
  std::string what;
  Result<teraio::simulate::Run> run;
};

int planning_threads(planner::Effort effort) {
  const int cores = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  return effort == planner::Effort::kBest ? std::max(cores / 2, 1) : cores;  // each one uses two
}

class ExplainCommand {
 public:
  explicit ExplainCommand(CLI::App& command) : inputs_(command), effort_(command) {
    inputs_.add_write_budget(command);
    CLI::Option* const plan =
        command.add_option("--plan", plan_, "The plan to explain")->type_name("FILE")->required();
    CLI::Option* const run =
        command
            .add_option("--run", run_directory_,
                        "Instead of a plan: a run's --report directory; shows which steps followed "
                        "plans, and what made the others differ")
            ->type_name("DIR")
            ->excludes(plan)
            ->trigger_on_parse()
            ->each([this, plan](const std::string&) {
              plan->required(false);
              inputs_.allow_none();
            });
    CLI::Option* const curve = command.add_flag(
        "--write-curve", write_curve_, "Also show the step time for several write budgets");
    CLI::Option* const json =
        command.add_flag("--json", json_, "Print one JSON object")->excludes(curve)->excludes(run);
    command
        .add_flag("--brief", brief_,
                  "Leave out what is known of a plan that was just made: its bound, and the plan "
                  "with nothing changed")
        ->needs(json);
  }

  void run() const {
    if (!run_directory_.empty())
      return fmt::print("{}", value_or_fail(explain_run(run_directory_)));
    const Inputs given = inputs_.read();
    const Result<plan::Plan> plan = plan::read_plan(plan_, given.trace);
    if (!plan.ok()) fail(plan.status());
    const Result<teraio::simulate::Run> run =
        simulate::simulate(given.trace, given.hardware, given.limits, *plan);
    if (!run.ok()) fail(run.status().with_context(plan_));
    planner::PlannerOptions options = effort_.planner_options();
    if (!has_replays(*plan)) options.recompute = planner::Recompute::kOff;
    if (json_) return print_json(given, *run, options);
    print_summary(given, *run);
    print_phases(given, *run);
    print_transfers(given, *run);
    print_changes(*run, plan_again(given.trace, changes(given, options)));
    if (write_curve_) print_write_curve(given);
  }

 private:
  static void print_summary(const Inputs& given, const teraio::simulate::Run& run) {
    const planner::StepBounds bounds =
        planner::lower_bounds(given.trace, given.hardware, given.limits);
    const std::string replays =
        run.replays.empty() ? "" : fmt::format("{} replays, ", format_duration(run.replay_ns));
    fmt::print("step {}: {} compute, {}{} stalled ({} of ideal)\n", format_duration(run.step_ns),
               format_duration(run.ideal_ns), replays, format_duration(run.stall_ns),
               percent(run.ideal_ns, run.step_ns));
    if (run.replays.empty())
      fmt::print("at most {} from the best possible plan (bound: {})\n",
                 percent(run.step_ns - bounds.best_ns(), bounds.best_ns()),
                 format_duration(bounds.best_ns()));
    else
      fmt::print("no plan is faster than {}, none without replays than {}\n",
                 format_duration(
                     planner::lower_bounds_with_replays(given.trace, given.hardware, given.limits)
                         .best_ns()),
                 format_duration(bounds.best_ns()));
    fmt::print("{}\n\n", analysis::binding_of(run, given.trace, given.hardware, given.limits));
  }

  static void print_phases(const Inputs& given, const teraio::simulate::Run& run) {
    std::vector<std::string> columns = {"phase", "compute", "stalled", "of the stall"};
    if (!run.replays.empty()) columns.push_back("replays");
    Table table(columns);
    for (const analysis::StallShare& share : analysis::stall_by_phase(run, given.trace)) {
      std::vector<std::string> row = {share.what, format_duration(share.compute_ns),
                                      format_duration(share.stall_ns),
                                      percent(share.stall_ns, run.stall_ns)};
      if (!run.replays.empty()) row.push_back(format_duration(share.replay_ns));
      table.add(row);
    }
    fmt::print("{}\n", table.text());
  }

  static void print_transfers(const Inputs& given, const teraio::simulate::Run& run) {
    if (run.stall_ns == 0) return;
    Table table({"waiting for", "stalled", "of the stall"});
    for (const auto& [cause, stall_ns] : run.stall_by_cause_ns)
      table.add({cause, format_duration(stall_ns), percent(stall_ns, run.stall_ns)});
    for (const analysis::StallShare& share : analysis::stall_by_transfer(run, given.trace))
      table.add({"  " + share.what, format_duration(share.stall_ns),
                 percent(share.stall_ns, run.stall_ns)});
    fmt::print("{}\n", table.text());
  }

  std::vector<Change> changes(const Inputs& given, const planner::PlannerOptions& options) const {
    const analysis::MachineConfig machine{given.hardware, given.limits};
    std::vector<Change> changes;
    if (!brief_) changes.push_back({"nothing changed", machine, options});
    if (options.recompute != planner::Recompute::kOff) {
      changes.push_back({"no replays", machine, options});
      changes.back().options.recompute = planner::Recompute::kOff;
    }
    if (!given.hardware.drives.empty())
      changes.push_back({"one more drive", with_one_more_drive(machine), options});
    changes.push_back({"64 GB more host memory", with_more_host(machine, 64'000'000'000), options});
    changes.push_back({"10 % more device memory", with_larger_device(machine, 1.1), options});
    changes.push_back({"twice the device memory", with_larger_device(machine, 2.0), options});
    return changes;
  }

  // Plans with one thing changed at a time.
  static std::vector<PlannedChange> plan_again(const trace::Trace& trace,
                                               const std::vector<Change>& changes) {
    Progress progress;
    progress.show("planning with other drives and memory ...");
    std::vector<std::optional<Result<teraio::simulate::Run>>> runs(changes.size());
    const int threads = planning_threads(changes.front().options.effort);
    analysis::parallel_for(changes.size(), threads, [&](size_t i) {
      runs[i] = analysis::planned_run(trace, changes[i].machine, changes[i].options);
    });
    std::vector<PlannedChange> planned;
    for (size_t i = 0; i < changes.size(); ++i)
      planned.push_back({changes[i].what, std::move(*runs[i])});
    return planned;
  }

  static void print_changes(const teraio::simulate::Run& before,
                            const std::vector<PlannedChange>& changes) {
    Table table({"planned again with", "step", "of ideal", "gain"});
    for (const auto& [what, run] : changes) {
      if (run.ok())
        table.add({what, format_duration(run->step_ns), percent(run->ideal_ns, run->step_ns),
                   percent(before.step_ns - run->step_ns, before.step_ns)});
      else
        table.add({what, "does not fit"});
    }
    fmt::print("{}", table.text());
  }

  static int64_t bound_ns(const Inputs& given, const teraio::simulate::Run& run) {
    const planner::StepBounds bounds =
        run.replays.empty()
            ? planner::lower_bounds(given.trace, given.hardware, given.limits)
            : planner::lower_bounds_with_replays(given.trace, given.hardware, given.limits);
    return bounds.best_ns();
  }

  void print_json(const Inputs& given, const teraio::simulate::Run& run,
                  const planner::PlannerOptions& options) const {
    Json json = {{"step_ns", run.step_ns}, {"ideal_ns", run.ideal_ns}};
    if (!brief_) json["bound_ns"] = bound_ns(given, run);
    json.update(
        {{"replay_ns", run.replay_ns},
         {"stall_ns", run.stall_ns},
         {"stall_by_cause", run.stall_by_cause_ns},
         {"binding", analysis::binding_of(run, given.trace, given.hardware, given.limits)}});
    json["phases"] = Json::array();
    for (const analysis::StallShare& share : analysis::stall_by_phase(run, given.trace))
      json["phases"].push_back({{"what", share.what},
                                {"compute_ns", share.compute_ns},
                                {"stall_ns", share.stall_ns},
                                {"replay_ns", share.replay_ns}});
    json["stall_by_transfer"] = Json::array();
    for (const analysis::StallShare& share : analysis::stall_by_transfer(run, given.trace))
      json["stall_by_transfer"].push_back({{"what", share.what}, {"stall_ns", share.stall_ns}});
    json["changes"] = Json::array();
    for (const PlannedChange& change : plan_again(given.trace, changes(given, options)))
      json["changes"].push_back(to_json(change));
    fmt::print("{}\n", json.dump(2));
  }

  static Json to_json(const PlannedChange& change) {
    const auto& [what, run] = change;
    if (!run.ok()) return {{"what", what}, {"unfit", run.status().message()}};
    return {{"what", what},
            {"step_ns", run->step_ns},
            {"ideal_ns", run->ideal_ns},
            {"ssd_bytes_written", run->ssd_bytes_written},
            {"ssd_bytes_read", run->ssd_bytes_read}};
  }

  void print_write_curve(const Inputs& given) const {
    Progress progress;
    progress.show("planning with several write budgets ...");
    planner::PlannerOptions options = effort_.planner_options();
    options.recompute = planner::Recompute::kOff;
    const Result<std::vector<analysis::WriteTradeOff>> curve =
        analysis::write_trade_off(given.trace, {given.hardware, given.limits}, options);
    if (!curve.ok()) fail(curve.status());
    const int64_t ideal_ns = trace::ideal_ns(given.trace);
    Table table({"write budget", "written", "step", "of ideal", "drives last"});
    for (const analysis::WriteTradeOff& point : *curve)
      table.add({format_size(point.write_budget_bytes), format_size(point.ssd_bytes_written),
                 format_duration(point.step_ns), percent(ideal_ns, point.step_ns),
                 drive_life(given.hardware, point.ssd_bytes_written, point.step_ns)});
    progress.show("");
    fmt::print("\n{}", table.text());
  }

  static analysis::MachineConfig with_one_more_drive(analysis::MachineConfig machine) {
    machine.hardware.drives.push_back(machine.hardware.drives.back());
    machine.hardware.drives.back().name += " (one more)";
    return machine;
  }

  static analysis::MachineConfig with_more_host(analysis::MachineConfig machine,
                                                int64_t more_bytes) {
    machine.hardware.host.capacity_bytes += more_bytes;
    if (machine.limits.host_limit_bytes) *machine.limits.host_limit_bytes += more_bytes;
    return machine;
  }

  static analysis::MachineConfig with_larger_device(analysis::MachineConfig machine,
                                                    double factor) {
    const auto larger = [factor](int64_t bytes) {
      return static_cast<int64_t>(static_cast<double>(bytes) * factor);
    };
    machine.hardware.device_memory_bytes = larger(machine.hardware.device_memory_bytes);
    if (machine.limits.device_budget_bytes)
      machine.limits.device_budget_bytes = larger(*machine.limits.device_budget_bytes);
    return machine;
  }

  InputOptions inputs_;
  EffortOptions effort_;
  std::string plan_;
  std::string run_directory_;
  bool write_curve_ = false;
  bool json_ = false;
  bool brief_ = false;
};

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("explain", "Show where the time of a plan goes, and what would reduce it");
  auto options = std::make_shared<ExplainCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
