// `teraio explain`: shows where the time of a plan goes, and what would reduce it; or which steps
// of a run followed plans, and why the others did not.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/bounds.h"
#include "analysis/explanation.h"
#include "analysis/planned_run.h"
#include "analysis/replay_bounds.h"
#include "analysis/write_trade_off.h"
#include "base/units.h"
#include "commands.h"
#include "drive_life.h"
#include "inputs.h"
#include "planner/planner.h"
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

// A run that is planned again with something changed.
struct Change {
  std::string what;
  Result<teraio::simulate::Run> run;
};

class ExplainCommand {
 public:
  explicit ExplainCommand(CLI::App& command) : inputs_(command), effort_(command) {
    inputs_.add_write_budget(command);
    CLI::Option* const plan =
        command.add_option("--plan", plan_, "The plan to explain")->required();
    CLI::Option* const run =
        command
            .add_option("--run", run_directory_,
                        "Instead of a plan: a run's --report directory; shows which steps followed "
                        "plans, and what made the others differ")
            ->excludes(plan)
            ->trigger_on_parse()
            ->each([this, plan](const std::string&) {
              plan->required(false);
              inputs_.allow_none();
            });
    CLI::Option* const curve = command.add_flag(
        "--write-curve", write_curve_, "Also show the step time for several write budgets");
    command.add_flag("--json", json_, "Print one JSON object")->excludes(curve)->excludes(run);
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
    if (has_replays(*plan)) options.recompute = planner::Recompute::kAll;
    if (json_) return print_json(given, *run, options);
    print_summary(given, *run);
    print_phases(given, *run);
    print_transfers(given, *run);
    print_changes(*run, changes(given, options));
    if (write_curve_) print_write_curve(given);
  }

 private:
  static void print_summary(const Inputs& given, const teraio::simulate::Run& run) {
    const analysis::StepBounds bounds =
        analysis::lower_bounds(given.trace, given.hardware, given.limits);
    const std::string replays =
        run.replays.empty() ? "" : fmt::format("{} replays, ", format_duration(run.replay_ns));
    fmt::print("step {}: {} compute, {}{} stalled ({} of ideal)\n", format_duration(run.step_ns),
               format_duration(run.ideal_ns), replays, format_duration(run.stall_ns),
               percent(run.ideal_ns, run.step_ns));
    if (run.replays.empty())
      fmt::print("at most {} from the best possible plan (bound: {})\n\n",
                 percent(run.step_ns - bounds.best_ns(), bounds.best_ns()),
                 format_duration(bounds.best_ns()));
    else
      fmt::print("no plan is faster than {}, none without replays than {}\n\n",
                 format_duration(
                     analysis::lower_bounds_with_replays(given.trace, given.hardware, given.limits)
                         .best_ns()),
                 format_duration(bounds.best_ns()));
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

  // Plans again with one thing changed at a time.
  static std::vector<Change> changes(const Inputs& given, const planner::PlannerOptions& options) {
    std::vector<Change> changes;
    Progress progress;
    const auto add_with = [&](const std::string& what, const Inputs& changed,
                              const planner::PlannerOptions& planned_with) {
      progress.show("planning with " + what + " ...");
      changes.push_back(
          {what,
           analysis::planned_run(changed.trace, {changed.hardware, changed.limits}, planned_with)});
    };
    const auto add = [&](const std::string& what, const Inputs& changed) {
      add_with(what, changed, options);
    };
    add("nothing changed", given);
    if (options.recompute != planner::Recompute::kOff) {
      planner::PlannerOptions without = options;
      without.recompute = planner::Recompute::kOff;
      add_with("no replays", given, without);
    }
    if (!given.hardware.drives.empty()) add("one more drive", with_one_more_drive(given));
    add("64 GB more host memory", with_more_host(given, 64'000'000'000));
    add("10 % more device memory", with_larger_device(given, 1.1));
    add("twice the device memory", with_larger_device(given, 2.0));
    progress.show("");
    return changes;
  }

  static void print_changes(const teraio::simulate::Run& before,
                            const std::vector<Change>& changes) {
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

  static void print_json(const Inputs& given, const teraio::simulate::Run& run,
                         const planner::PlannerOptions& options) {
    const analysis::StepBounds bounds =
        run.replays.empty()
            ? analysis::lower_bounds(given.trace, given.hardware, given.limits)
            : analysis::lower_bounds_with_replays(given.trace, given.hardware, given.limits);
    Json json = {{"step_ns", run.step_ns},       {"ideal_ns", run.ideal_ns},
                 {"bound_ns", bounds.best_ns()}, {"replay_ns", run.replay_ns},
                 {"stall_ns", run.stall_ns},     {"stall_by_cause", run.stall_by_cause_ns}};
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
    for (const Change& change : changes(given, options)) json["changes"].push_back(to_json(change));
    fmt::print("{}\n", json.dump(2));
  }

  static Json to_json(const Change& change) {
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
    const Result<std::vector<analysis::WriteTradeOff>> curve = analysis::write_trade_off(
        given.trace, {given.hardware, given.limits}, effort_.planner_options());
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

  static Inputs with_one_more_drive(Inputs inputs) {
    inputs.hardware.drives.push_back(inputs.hardware.drives.back());
    inputs.hardware.drives.back().name += " (one more)";
    return inputs;
  }

  static Inputs with_more_host(Inputs inputs, int64_t more_bytes) {
    inputs.hardware.host.capacity_bytes += more_bytes;
    if (inputs.limits.host_limit_bytes) *inputs.limits.host_limit_bytes += more_bytes;
    return inputs;
  }

  static Inputs with_larger_device(Inputs inputs, double factor) {
    const auto larger = [factor](int64_t bytes) {
      return static_cast<int64_t>(static_cast<double>(bytes) * factor);
    };
    inputs.hardware.device_memory_bytes = larger(inputs.hardware.device_memory_bytes);
    if (inputs.limits.device_budget_bytes)
      inputs.limits.device_budget_bytes = larger(*inputs.limits.device_budget_bytes);
    return inputs;
  }

  InputOptions inputs_;
  EffortOptions effort_;
  std::string plan_;
  std::string run_directory_;
  bool write_curve_ = false;
  bool json_ = false;
};

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("explain", "Show where the time of a plan goes and what would reduce it");
  auto options = std::make_shared<ExplainCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
