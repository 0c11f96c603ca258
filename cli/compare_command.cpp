// `teraio compare`: predicts the step of a program on a machine under the policies of several
// systems.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "pattern_text.h"
#include "planner/baselines.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "progress.h"
#include "simulate/simulator.h"
#include "table.h"

namespace teraio::cli {
namespace {

constexpr int64_t kTimeLimitNs = 10'000'000'000;  // of each search with best effort

// A row per policy: its step, or its mean step when there are several patterns.
class Comparison {
 public:
  explicit Comparison(std::vector<Inputs> patterns)
      : patterns_(std::move(patterns)),
        table_({"policy", "step", "of ideal", "stalled", "written", "read", "host peak",
                "planned in"}) {
    for (const Inputs& given : patterns_)
      simulators_.emplace_back(given.trace, given.hardware, given.limits);
  }

  void run() {
    for (planner::Baseline baseline : planner::all_baselines())
      add(std::string(to_string(baseline)), [&](const Inputs& given) {
        return plan_baseline(baseline, given.trace, given.hardware, given.limits);
      });
    add_planner("Algorithm 1", {.policy = planner::Policy::kAlgorithm1});
    add_planner("TERAIO, fast", {.effort = planner::Effort::kFast});
    planner::PlannerOptions best = {.effort = planner::Effort::kBest,
                                    .time_limit_ns = kTimeLimitNs};
    add_planner("TERAIO, best", best);
    best.recompute = planner::Recompute::kAll;
    if (has_replayable_ops()) add_planner("TERAIO, best, recompute", best);
    add_limits();
    progress_.show("");
    fmt::print("{} on {}\n\n{}{}", name(), patterns_.front().hardware.name, table_.text(), notes_);
  }

 private:
  void add_planner(const std::string& name, const planner::PlannerOptions& options) {
    add(name, [&](const Inputs& given) {
      return planner::plan(given.trace, given.hardware, given.limits, options);
    });
  }

  std::string name() const {
    if (patterns_.size() == 1) return patterns_.front().trace.name;
    std::string text = "mean step of";
    for (const Inputs& given : patterns_)
      text += fmt::format("{} {} {}", &given == &patterns_.front() ? "" : ",",
                          share_text(given.share), given.trace_file);
    return text;
  }

  bool has_replayable_ops() const {
    return std::ranges::any_of(patterns_, [](const Inputs& given) {
      return std::ranges::any_of(given.trace.ops, &trace::Op::replayable);
    });
  }

  template <typename MakePlan>
  void add(const std::string& name, MakePlan make_plan) {
    progress_.show(name + " ...");
    int64_t planning_ns = 0;
    std::vector<simulate::PatternRun> runs;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      const int64_t start_ns = clock_.now_ns();
      const Result<plan::Plan> plan = make_plan(patterns_[i]);
      planning_ns += clock_.now_ns() - start_ns;
      if (!plan.ok()) return add_failure(name, i, plan.status());
      const Result<teraio::simulate::Run> run = simulators_[i].run(*plan);
      if (!run.ok()) return add_failure(name, i, run.status());
      runs.push_back({patterns_[i].trace_file, patterns_[i].share, *run});
    }
    add_run(name, mean_run(runs), planning_ns);
  }

  void add_run(const std::string& name, const teraio::simulate::Run& run, int64_t planning_ns) {
    table_.add(
        {name, format_duration(run.step_ns), fmt::format("{:.1f} %", 100 * fraction_of_ideal(run)),
         format_duration(run.stall_ns), format_size(run.ssd_bytes_written + run.host_bytes_written),
         format_size(run.ssd_bytes_read + run.host_bytes_read), format_size(run.host_peak_bytes),
         format_duration(planning_ns)});
  }

  void add_failure(const std::string& name, size_t i, const Status& status) {
    table_.add({name, "does not fit"});
    notes_ +=
        fmt::format("\n{}: {}", name, failure_of(status, patterns_[i], patterns_.size()).message());
  }

  void add_limits() {
    progress_.show("bound ...");
    double best_ns = 0;
    double compute_ns = 0;
    for (const Inputs& given : patterns_) {
      const planner::StepBounds bounds =
          planner::lower_bounds(given.trace, given.hardware, given.limits);
      best_ns += given.share * static_cast<double>(bounds.best_ns());
      compute_ns += given.share * static_cast<double>(bounds.compute_ns);
    }
    table_.add({has_replayable_ops() ? "bound: no plan without replays is faster"
                                     : "bound: no plan is faster",
                format_duration(std::llround(best_ns)),
                fmt::format("{:.1f} %", 100 * compute_ns / std::max(1.0, best_ns))});
    table_.add(
        {"ideal: memory without limit", format_duration(std::llround(compute_ns)), "100.0 %"});
    if (!notes_.empty()) notes_ += "\n";
  }

  const std::vector<Inputs> patterns_;
  std::vector<simulate::Simulator> simulators_;  // one per pattern
  const SteadyClock clock_;
  Table table_;
  std::string notes_;
  Progress progress_;
};

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Compare the policies of TERAIO and of other systems");
  auto options = std::make_shared<InputOptions>(*command, Traces::kSeveral);
  command->callback([options] { Comparison(options->read_patterns()).run(); });
}

}  // namespace teraio::cli
