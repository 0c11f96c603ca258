// `teraio compare`: predicts the step of a trace on a machine under the policies of several
// systems.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "analysis/bounds.h"
#include "base/clock.h"
#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "planner/baselines.h"
#include "planner/planner.h"
#include "progress.h"
#include "simulate/simulator.h"
#include "table.h"

namespace teraio::cli {
namespace {

class Comparison {
 public:
  explicit Comparison(Inputs given)
      : given_(std::move(given)),
        simulator_(given_.trace, given_.hardware, given_.limits),
        table_({"policy", "step", "of ideal", "stalled", "written", "read", "host peak",
                "planned in"}) {}

  void run() {
    for (planner::Baseline baseline : planner::all_baselines())
      add(std::string(to_string(baseline)),
          [&] { return plan_baseline(baseline, given_.trace, given_.hardware, given_.limits); });
    add("Algorithm 1", [&] { return ours({.policy = planner::Policy::kAlgorithm1}); });
    add("TERAIO, fast", [&] { return ours({.effort = planner::Effort::kFast}); });
    add("TERAIO, best", [&] { return ours({.effort = planner::Effort::kBest}); });
    if (has_replayable_ops())
      add("TERAIO, best, recompute", [&] {
        return ours({.effort = planner::Effort::kBest, .recompute = planner::Recompute::kAll});
      });
    add_limits();
    progress_.show("");
    fmt::print("{} on {}\n\n{}{}", given_.trace.name, given_.hardware.name, table_.text(), notes_);
  }

 private:
  Result<plan::Plan> ours(const planner::PlannerOptions& options) const {
    return planner::plan(given_.trace, given_.hardware, given_.limits, options);
  }

  bool has_replayable_ops() const {
    return std::ranges::any_of(given_.trace.ops, &trace::Op::replayable);
  }

  template <typename MakePlan>
  void add(const std::string& name, MakePlan make_plan) {
    progress_.show(name + " ...");
    const int64_t start_ns = clock_.now_ns();
    const Result<plan::Plan> plan = make_plan();
    const int64_t planning_ns = clock_.now_ns() - start_ns;
    if (!plan.ok()) return add_failure(name, plan.status());
    const Result<teraio::simulate::Run> run = simulator_.run(*plan);
    if (!run.ok()) return add_failure(name, run.status());
    table_.add({name, format_duration(run->step_ns),
                fmt::format("{:.1f} %", 100 * fraction_of_ideal(*run)),
                format_duration(run->stall_ns),
                format_size(run->ssd_bytes_written + run->host_bytes_written),
                format_size(run->ssd_bytes_read + run->host_bytes_read),
                format_size(run->host_peak_bytes), format_duration(planning_ns)});
  }

  void add_failure(const std::string& name, const Status& status) {
    table_.add({name, "does not fit"});
    notes_ += fmt::format("\n{}: {}", name, status.message());
  }

  void add_limits() {
    progress_.show("bound ...");
    const analysis::StepBounds bounds =
        analysis::lower_bounds(given_.trace, given_.hardware, given_.limits);
    const double compute_ns = static_cast<double>(bounds.compute_ns);
    table_.add(
        {has_replayable_ops() ? "bound: no plan without replays is faster"
                              : "bound: no plan is faster",
         format_duration(bounds.best_ns()),
         fmt::format("{:.1f} %", 100 * compute_ns / std::max<int64_t>(1, bounds.best_ns()))});
    table_.add({"ideal: memory without limit", format_duration(bounds.compute_ns), "100.0 %"});
    if (!notes_.empty()) notes_ += "\n";
  }

  const Inputs given_;
  const simulate::Simulator simulator_;
  const SteadyClock clock_;
  Table table_;
  std::string notes_;
  Progress progress_;
};

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Compare the policies of TERAIO and of other systems");
  auto options = std::make_shared<InputOptions>(*command);
  command->callback([options] { Comparison(options->read()).run(); });
}

}  // namespace teraio::cli
