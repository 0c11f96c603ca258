// `teraio plan`: what to move when, for a trace on a machine.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "plan/planner.h"
#include "plan/validator.h"
#include "simulate/bounds.h"
#include "simulate/run_file.h"
#include "simulate/search.h"
#include "simulate/simulator.h"
#include "table.h"

namespace teraio::tools {
namespace {

const std::map<std::string, Policy> kPolicies = {{"teraio", Policy::kTeraio},
                                                 {"algorithm1", Policy::kAlgorithm1}};
const std::map<std::string, Effort> kEfforts = {{"fast", Effort::kFast}, {"best", Effort::kBest}};

struct PlanCommand {
  explicit PlanCommand(CLI::App& command) : inputs(command) {
    command.add_option("--write-budget", write_budget,
                       "Bytes that an iteration may write to the drives, such as 200GB");
    command.add_option("--policy", options.policy, "teraio or algorithm1")
        ->transform(CLI::CheckedTransformer(kPolicies));
    command.add_option("--effort", options.effort, "fast or best")
        ->transform(CLI::CheckedTransformer(kEfforts));
    command.add_option("--time-limit", time_limit_s, "Seconds that a search may take")
        ->check(CLI::PositiveNumber);
    command.add_option("--out", out, "Write the plan here")->required();
  }
  void run() const;
  Inputs read_inputs() const;

  InputOptions inputs;
  PlannerOptions options;
  std::string write_budget;
  std::string out;
  double time_limit_s = 30;
};

struct Planned {
  Plan plan;
  teraio::Run run;
  int64_t took_ns = 0;
  int64_t bound_ns = 0;
};

std::string fit_text(const Inputs& given, const Plan& plan) {
  if (plan.migrations.empty()) return "everything fits: nothing moves\n";
  const int64_t least = least_device_budget_bytes(given.trace, given.limits);
  return fmt::format("fits by moving; the least device memory is {}\n", format_size(least));
}

std::string text_of(const Planned& planned) {
  const teraio::Run& run = planned.run;
  const double above = 100.0 * static_cast<double>(run.step_ns - planned.bound_ns) /
                       static_cast<double>(std::max<int64_t>(planned.bound_ns, 1));
  std::string text =
      fmt::format("step {}, ideal {}: {:.1f} % of ideal\n", format_duration(run.step_ns),
                  format_duration(run.ideal_ns), 100 * fraction_of_ideal(run));
  text += fmt::format("no plan is faster than {}: at most {:.1f} % from the best possible\n",
                      format_duration(planned.bound_ns), std::max(above, 0.0));
  text += fmt::format("{} migrations, planned in {}\n\n", planned.plan.migrations.size(),
                      format_duration(planned.took_ns));
  Table table({"", "written", "read", "peak"});
  table.add({"device", "", "", format_size(run.device_peak_bytes)});
  table.add({"host", format_size(run.host_bytes_written), format_size(run.host_bytes_read),
             format_size(run.host_peak_bytes)});
  table.add({"SSD", format_size(run.ssd_bytes_written), format_size(run.ssd_bytes_read),
             format_size(run.ssd_peak_bytes)});
  return text + table.text();
}

Inputs PlanCommand::read_inputs() const {
  Inputs given = inputs.read();
  if (write_budget.empty()) return given;
  const Result<int64_t> bytes = parse_size(write_budget);
  if (!bytes.ok()) fail(bytes.status().with_context("--write-budget"));
  given.limits.write_budget_bytes = *bytes;
  return given;
}

void PlanCommand::run() const {
  const Inputs given = read_inputs();
  PlannerOptions limited = options;
  limited.time_limit_ns = static_cast<int64_t>(time_limit_s * 1e9);
  const SteadyClock clock;
  const int64_t began_ns = clock.now_ns();
  const Result<Plan> plan = plan_by_simulation(given.trace, given.hardware, given.limits, limited);
  const int64_t took_ns = clock.now_ns() - began_ns;
  if (!plan.ok()) fail(plan.status());
  if (const Status valid = validate_plan(*plan, given.trace, given.hardware, given.limits);
      !valid.ok())
    fail(valid);
  const Result<teraio::Run> run = simulate(given.trace, given.hardware, given.limits, *plan);
  if (!run.ok()) fail(run.status());
  if (const Status written = write_plan(*plan, given.trace, out); !written.ok()) fail(written);
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, given.limits).best_ns();
  fmt::print("{}{}", fit_text(given, *plan), text_of({*plan, *run, took_ns, bound_ns}));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Plan what moves when, for a trace on a machine");
  auto options = std::make_shared<PlanCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::tools
