// `teraio plan`: plans the migrations of traces on a machine, and compares the policies of systems.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "analysis/explanation.h"
#include "base/clock.h"
#include "base/json_file.h"
#include "base/units.h"
#include "commands.h"
#include "drive_life.h"
#include "help.h"
#include "inputs.h"
#include "pattern_text.h"
#include "plan/validator.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "planner/policies/algorithm1.h"
#include "planner/policies/baselines.h"
#include "planner/replay_bounds.h"
#include "progress.h"
#include "run_text.h"
#include "simulate/simulator.h"
#include "table.h"

namespace teraio::cli {
namespace {

// The planners of this project and of the paper, and the baselines.
using AnyPolicy = std::variant<planner::Policy, planner::Baseline>;

std::map<std::string, AnyPolicy> make_policies() {
  std::map<std::string, AnyPolicy> policies = {{"teraio", planner::Policy::kTeraio},
                                               {"algorithm1", planner::Policy::kAlgorithm1}};
  for (const planner::Baseline baseline : planner::all_baselines())
    policies[std::string(to_string(baseline))] = baseline;
  return policies;
}

const std::map<std::string, AnyPolicy> kPolicies = make_policies();

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const auto& [name, policy] : kPolicies) names.push_back(name);
  return names;
}

struct Planned {
  plan::Plan plan;
  teraio::simulate::Run run;
  int64_t took_ns = 0;
  int64_t bound_ns = 0;         // of plans without replays
  int64_t replay_bound_ns = 0;  // of all plans; 0 for a plan without replays
};

struct PlanCommand {
  explicit PlanCommand(CLI::App& command) : inputs(command, Traces::kSeveral), effort(command) {
    inputs.add_write_budget(command);
    effort.add_recompute(command);
    accept_only(
        command.add_option("--policy", policies,
                           "teraio (default), algorithm1 (the paper's), or the policy of another "
                           "system; several, such as teraio,g10, are compared in a table"),
        policy_names())
        ->delimiter(',')
        ->allow_extra_args(false);
    command
        .add_option("--rounds", rounds,
                    "Write the choice of algorithm1 in each round to this CSV file")
        ->type_name("FILE");
    command
        .add_option("--out", outs,
                    "Write the plan here; one file per trace (required with one policy)")
        ->type_name("FILE");
  }
  void run() const;
  void write_plans(const std::vector<Inputs>& patterns) const;
  void compare_policies(const std::vector<Inputs>& patterns) const;
  void expect_one_policy(std::string_view option, bool is_given) const;
  Result<Planned> planned(const Inputs& given, const std::string& policy) const;
  Result<plan::Plan> make_plan(const Inputs& given, const std::string& policy) const;

  InputOptions inputs;
  EffortOptions effort;
  std::vector<std::string> policies = {"teraio"};
  std::string rounds;
  std::vector<std::string> outs;
};

std::string fit_text(const Inputs& given, const plan::Plan& plan) {
  if (plan.migrations.empty()) return "everything fits: nothing moves\n";
  const int64_t least = planner::min_device_budget_bytes(given.trace, given.limits);
  return fmt::format("fits by moving; the least device memory is {}\n", format_size(least));
}

std::string wear_text(const Inputs& given, const teraio::simulate::Run& run) {
  std::string text;
  if (const std::optional<int64_t>& budget = given.limits.write_budget_bytes)
    text += fmt::format("writes {} of the {} allowed to the drives per iteration\n",
                        format_size(run.ssd_bytes_written), format_size(*budget));
  const std::string life = drive_life(given.hardware, run.ssd_bytes_written, run.step_ns);
  if (!life.empty()) text += fmt::format("the drives last {} of training without a pause\n", life);
  return text;
}

std::string text_of(const Inputs& given, const Planned& planned) {
  const teraio::simulate::Run& run = planned.run;
  const double above = 100.0 * static_cast<double>(run.step_ns - planned.bound_ns) /
                       static_cast<double>(std::max<int64_t>(planned.bound_ns, 1));
  std::string text = step_text(run);
  if (run.replays.empty())
    text += fmt::format("no plan is faster than {}: at most {:.1f} % from the best possible\n",
                        format_duration(planned.bound_ns), std::max(above, 0.0));
  else
    text +=
        fmt::format("no plan is faster than {}, none without replays than {}\n",
                    format_duration(planned.replay_bound_ns), format_duration(planned.bound_ns));
  text += analysis::binding_of(run, given.trace, given.hardware, given.limits);
  text += fmt::format("\n{} migrations, planned in {}\n\n", planned.plan.migrations.size(),
                      format_duration(planned.took_ns));
  return text + traffic_text(run);
}

// Plans by Algorithm 1 and writes its choices to `path` as CSV, one line per round.
Result<plan::Plan> plan_with_rounds(const Inputs& given, const std::string& path) {
  std::string text = "round,tensor,first_op,next_use_op,tier,benefit_byte_ns,cost_ns\n";
  int64_t count = 0;
  Result<plan::Plan> plan = planner::plan_algorithm1(
      given.trace, given.hardware, given.limits, [&](const planner::Round& round) {
        text += fmt::format("{},{},{},{},{},{:.0f},{:.0f}\n", count++,
                            given.trace.tensors[round.tensor].id, round.first_op, round.next_use_op,
                            to_string(round.tier), round.benefit_byte_ns, round.cost_ns);
      });
  if (const Status written = write_text_file(path, text); !written.ok()) return written;
  return plan;
}

Result<plan::Plan> PlanCommand::make_plan(const Inputs& given, const std::string& policy) const {
  const AnyPolicy chosen = kPolicies.at(policy);
  if (!rounds.empty()) {
    if (chosen == AnyPolicy(planner::Policy::kAlgorithm1)) return plan_with_rounds(given, rounds);
    return Status(ErrorCode::kInvalidArgument, "--rounds: expected --policy algorithm1 with it");
  }
  if (const planner::Baseline* baseline = std::get_if<planner::Baseline>(&chosen))
    return plan_baseline(*baseline, given.trace, given.hardware, given.limits);
  planner::PlannerOptions options = effort.planner_options();
  options.policy = std::get<planner::Policy>(chosen);
  return planner::plan(given.trace, given.hardware, given.limits, options);
}

Result<Planned> PlanCommand::planned(const Inputs& given, const std::string& policy) const {
  const SteadyClock clock;
  const int64_t began_ns = clock.now_ns();
  Result<plan::Plan> plan = make_plan(given, policy);
  const int64_t took_ns = clock.now_ns() - began_ns;
  if (!plan.ok()) return plan.status();
  TERAIO_RETURN_IF_ERROR(validate_plan(*plan, given.trace, given.hardware, given.limits));
  Result<teraio::simulate::Run> run =
      simulate::simulate(given.trace, given.hardware, given.limits, *plan);
  if (!run.ok()) return run.status();
  return Planned{std::move(*plan), std::move(*run), took_ns};
}

void add_bounds(const Inputs& given, Planned& planned) {
  planned.bound_ns = planner::lower_bounds(given.trace, given.hardware, given.limits).best_ns();
  if (!planned.run.replays.empty())
    planned.replay_bound_ns =
        planner::lower_bounds_with_replays(given.trace, given.hardware, given.limits).best_ns();
}

// What is known of each plan, and the mean step.
std::string text_of(const std::vector<Inputs>& patterns, const std::vector<Planned>& all) {
  Table table(
      {"pattern", "least device memory", "no plan is faster than", "migrations", "planned in"});
  std::vector<PlannedPattern> planned;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Inputs& given = patterns[i];
    const Planned& made = all[i];
    planned.push_back({given, made.plan, made.run});
    table.add({given.trace_file,
               format_size(planner::min_device_budget_bytes(given.trace, given.limits)),
               format_duration(made.run.replays.empty() ? made.bound_ns : made.replay_bound_ns),
               std::to_string(made.plan.migrations.size()), format_duration(made.took_ns)});
  }
  return table.text() + "\n" + text_of(predict(planned), patterns.front().hardware);
}

// A row per policy: its step, or its mean step when there are several patterns.
class Comparison {
 public:
  explicit Comparison(const std::vector<Inputs>& patterns) : patterns_(patterns) {}

  // Adds the step of a policy from its plans of the first patterns, or of all. `status` is the
  // failure of the next one.
  void add(const std::string& policy, const std::vector<Planned>& all, const Status& status) {
    if (all.size() < patterns_.size()) {
      const Status named = failure_of(status, patterns_[all.size()], patterns_.size());
      notes_ += fmt::format("{}: {}\n", policy, named.message());
      return table_.add({policy, "does not fit"});
    }
    int64_t took_ns = 0;
    std::vector<teraio::simulate::PatternRun> runs;
    for (size_t i = 0; i < all.size(); ++i) {
      runs.push_back({patterns_[i].trace_file, patterns_[i].share, all[i].run});
      took_ns += all[i].took_ns;
    }
    add_run(policy, mean_run(runs), took_ns);
  }

  // Adds the lower bound of plans without replays and the ideal step. `can_replay`: some of the
  // compared plans may have replays.
  void add_bounds(bool can_replay) {
    double best_ns = 0;
    double compute_ns = 0;
    for (const Inputs& given : patterns_) {
      const planner::StepBounds bounds =
          planner::lower_bounds(given.trace, given.hardware, given.limits);
      best_ns += given.share * static_cast<double>(bounds.best_ns());
      compute_ns += given.share * static_cast<double>(bounds.compute_ns);
    }
    table_.add(
        {can_replay ? "bound: no plan without replays is faster" : "bound: no plan is faster",
         format_duration(std::llround(best_ns)),
         fmt::format("{:.1f} %", 100 * compute_ns / std::max(1.0, best_ns))});
    table_.add(
        {"ideal: memory without limit", format_duration(std::llround(compute_ns)), "100.0 %"});
  }

  std::string text() const {
    return fmt::format("{} on {}\n\n{}{}{}", name(), patterns_.front().hardware.name, table_.text(),
                       notes_.empty() ? "" : "\n", notes_);
  }

 private:
  std::string name() const {
    if (patterns_.size() == 1) return patterns_.front().trace.name;
    std::string text = "mean step of";
    for (const Inputs& given : patterns_)
      text += fmt::format("{} {} {}", &given == &patterns_.front() ? "" : ",",
                          share_text(given.share), given.trace_file);
    return text;
  }

  void add_run(const std::string& policy, const teraio::simulate::Run& run, int64_t took_ns) {
    table_.add({policy, format_duration(run.step_ns),
                fmt::format("{:.1f} %", 100 * fraction_of_ideal(run)),
                format_duration(run.stall_ns),
                format_size(run.ssd_bytes_written + run.host_bytes_written),
                format_size(run.ssd_bytes_read + run.host_bytes_read),
                format_size(run.host_peak_bytes), format_duration(took_ns)});
  }

  const std::vector<Inputs>& patterns_;
  Table table_{
      {"policy", "step", "of ideal", "stalled", "written", "read", "host peak", "planned in"}};
  std::string notes_;
};

bool has_replayable_ops(const std::vector<Inputs>& patterns) {
  return std::ranges::any_of(patterns, [](const Inputs& given) {
    return std::ranges::any_of(given.trace.ops, &trace::Op::replayable);
  });
}

void PlanCommand::expect_one_policy(std::string_view option, bool is_given) const {
  if (is_given)
    fail(
        Status(ErrorCode::kInvalidArgument,
               fmt::format("{}: expected one policy with it, --policy names {}: no plan is written "
                           "when policies are compared",
                           option, policies.size())));
}

void PlanCommand::compare_policies(const std::vector<Inputs>& patterns) const {
  expect_one_policy("--out", !outs.empty());
  expect_one_policy("--rounds", !rounds.empty());
  Comparison comparison(patterns);
  Progress progress;
  for (const std::string& policy : policies) {
    progress.show(policy + " ...");
    std::vector<Planned> all;
    Status status;
    for (size_t i = 0; i < patterns.size() && status.ok(); ++i) {
      Result<Planned> made = planned(patterns[i], policy);
      made.ok() ? all.push_back(std::move(*made)) : void(status = made.status());
    }
    comparison.add(policy, all, status);
  }
  progress.show("bound ...");
  comparison.add_bounds(effort.planner_options().recompute != planner::Recompute::kOff &&
                        has_replayable_ops(patterns));
  progress.show("");
  fmt::print("{}", comparison.text());
}

void PlanCommand::write_plans(const std::vector<Inputs>& patterns) const {
  expect_one_per_trace("--out", outs, patterns);
  if (!rounds.empty()) expect_one_per_trace("--rounds", {rounds}, patterns);
  std::vector<Planned> all;
  Progress progress;
  for (const Inputs& given : patterns) {
    progress.show(fmt::format("{} ...", given.trace_file));
    Result<Planned> made = planned(given, policies.front());
    if (made.ok()) add_bounds(given, *made);
    progress.show("");
    if (!made.ok()) fail(failure_of(made.status(), given, patterns.size()));
    all.push_back(std::move(*made));
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (const Status written = write_plan(all[i].plan, patterns[i].trace, outs[i]); !written.ok())
      fail(written);
  const Inputs& first = patterns.front();
  fmt::print("{}", all.size() > 1
                       ? text_of(patterns, all)
                       : fit_text(first, all.front().plan) + text_of(first, all.front()) +
                             wear_text(first, all.front().run));
}

void PlanCommand::run() const {
  std::vector<std::string> outputs = outs;
  if (!rounds.empty()) outputs.push_back(rounds);
  inputs.expect_outputs(outputs);
  const std::vector<Inputs> patterns = inputs.read_patterns();
  policies.size() > 1 ? compare_policies(patterns) : write_plans(patterns);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Plan the migrations of a trace on a machine, or compare policies");
  auto options = std::make_shared<PlanCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
