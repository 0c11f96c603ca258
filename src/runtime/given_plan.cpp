#include "runtime/given_plan.h"

#include <fmt/format.h>

#include <limits>

#include "base/log.h"
#include "base/units.h"
#include "learn/recorder.h"
#include "simulate/simulator.h"

namespace teraio::runtime {

Result<GivenPlan> GivenPlan::open(std::filesystem::path path) {
  const Result<std::string> name = plan::read_trace_name(path);
  if (!name.ok()) return name.status();
  if (learn::names_recording(*name)) return GivenPlan(std::move(path));
  return Status(ErrorCode::kInvalidArgument,
                fmt::format("{}: trace: expected the name of a recorded iteration, such as "
                            "\"iteration 0123456789abcdef 0123456789abcdef\", found \"{}\". Make "
                            "the plan from a trace of `teraio run --save-trace`",
                            path.string(), *name));
}

Result<std::optional<plan::Plan>> GivenPlan::plan_for(const trace::Trace& trace,
                                                      const hardware::Hardware& hardware,
                                                      const plan::Limits& limits) {
  Result<plan::Plan> plan = plan::read_plan(
      path_, trace::with_repeatable_ids(trace),
      [&](const std::string& name) { return learn::names_same_ops(name, trace.name); });
  if (!plan.ok() && is_used_) return std::optional<plan::Plan>();
  if (!plan.ok())
    return Status(plan.status().code(),
                  plan.status().message() +
                      ". Make one for this program with `teraio run --save-plan`")
        .with_details(plan.status().details());
  is_used_ = true;
  if (plan->trace != trace.name) return for_other_sizes(std::move(*plan), trace, hardware, limits);
  if (!limits.write_budget_bytes) return std::optional(std::move(*plan));
  return within_write_budget(std::move(*plan), trace, hardware, limits);
}

Result<std::optional<plan::Plan>> GivenPlan::for_other_sizes(plan::Plan plan,
                                                             const trace::Trace& trace,
                                                             const hardware::Hardware& hardware,
                                                             const plan::Limits& limits) {
  plan.trace = trace.name;
  const Result<simulate::Run> run = simulate::simulate(trace, hardware, limits, plan);
  if (!is_told_)
    log_warning(fmt::format(
        "teraio: the plan {} was made for other sizes of the same ops: {}", path_.string(),
        run.ok() ? "it is used for these, too"
                 : "it does not fit these, and another one is made: " + full_text(run.status())));
  is_told_ = true;
  if (!run.ok()) return std::optional<plan::Plan>();
  return std::optional(std::move(plan));
}

// A plan without a write budget is executed as it is, whatever the simulator says of it.
Result<std::optional<plan::Plan>> GivenPlan::within_write_budget(plan::Plan plan,
                                                                 const trace::Trace& trace,
                                                                 const hardware::Hardware& hardware,
                                                                 const plan::Limits& limits) const {
  plan::Limits counting = limits;
  counting.write_budget_bytes.reset();
  counting.device_budget_bytes = std::numeric_limits<int64_t>::max() / 2;
  const Result<simulate::Run> run = simulate::simulate(trace, hardware, counting, plan);
  if (!run.ok()) return run.status().with_context(path_.string());
  if (run->ssd_bytes_written <= *limits.write_budget_bytes) return std::optional(std::move(plan));
  log_warning(fmt::format(
      "teraio: the plan {} writes {} per iteration, and the write budget allows {}: it is not "
      "used, and another one is made",
      path_.string(), format_size(run->ssd_bytes_written),
      format_size(*limits.write_budget_bytes)));
  return std::optional<plan::Plan>();
}

}  // namespace teraio::runtime
