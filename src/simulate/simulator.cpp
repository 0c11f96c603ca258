#include "simulate/simulator.h"

#include <cmath>

#include "plan/validator.h"
#include "simulate/channels.h"
#include "simulate/plan_executor.h"
#include "simulate/resolved_plan.h"
#include "trace/trace_index.h"

namespace teraio::simulate {
namespace {

// Backlogs settle within a few iterations, or oscillate within a narrow band without ever repeating
// exactly.
constexpr int kIterationsMax = 32;

// Times are rounded to nanoseconds, so the remaining bytes of a repeated state differ slightly.
bool same_state(const std::vector<PlanExecutor::Pending>& a,
                const std::vector<PlanExecutor::Pending>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.migration == y.migration && x.in_flight == y.in_flight &&
           std::abs(x.remaining_bytes - y.remaining_bytes) <= 1e-3 * x.remaining_bytes + 1e3;
  });
}

bool same_step(int64_t a_ns, int64_t b_ns) {
  return std::abs(a_ns - b_ns) <= 1'000 + a_ns / 1'000'000;
}

}  // namespace

struct Simulator::State {
  State(const trace::Trace& trace, const hardware::Hardware& hardware, const plan::Limits& limits)
      : trace(trace),
        hardware(hardware),
        limits(limits),
        index(trace),
        tiers(hardware, limits),
        idle_channels(hardware),
        device_budget_bytes(limits.device_budget_bytes.value_or(hardware.device_memory_bytes)) {}

  // Returns the rule that the plan breaks. Only plans that cannot be executed are validated,
  // because searches simulate many plans.
  Status refusal(const plan::Plan& plan) const {
    TERAIO_RETURN_IF_ERROR(validate_plan(plan, trace, hardware, limits));
    return Status(ErrorCode::kInternal, "a plan that is legal and cannot be executed");
  }

  const trace::Trace& trace;
  hardware::Hardware hardware;
  plan::Limits limits;
  trace::TraceIndex index;
  TierCapacities tiers;
  Channels idle_channels;
  int64_t device_budget_bytes;
};

Simulator::Simulator(const trace::Trace& trace, const hardware::Hardware& hardware,
                     const plan::Limits& limits)
    : state_(std::make_unique<const State>(trace, hardware, limits)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

namespace {

// Runs iterations until one begins in the same state as the one before it and takes the same time,
// or kIterationsMax of them.
Status run_to_steady_state(PlanExecutor& executor, Run& run) {
  std::vector<PlanExecutor::Pending> before = executor.pending();
  int64_t step_ns = -1;
  for (int i = 0; i < kIterationsMax; ++i) {
    TERAIO_RETURN_IF_ERROR(executor.run_iteration(run));
    std::vector<PlanExecutor::Pending> after = executor.pending();
    const bool settled =
        same_state(before, after) && (step_ns < 0 || same_step(step_ns, run.step_ns));
    if (settled) break;
    before = std::move(after);
    step_ns = run.step_ns;
  }
  return Status();
}

}  // namespace

Result<Run> Simulator::run(const plan::Plan& plan) const {
  const State& s = *state_;
  const std::optional<ResolvedPlan> resolved = resolve_plan(plan, s.index, s.tiers);
  if (!resolved) return s.refusal(plan);
  const int64_t written_bytes = resolved->written_bytes[static_cast<int>(plan::Tier::kSsd)];
  if (written_bytes > s.limits.write_budget_bytes.value_or(written_bytes)) return s.refusal(plan);
  PlanExecutor executor({s.trace, s.index, s.tiers, s.device_budget_bytes}, s.idle_channels, plan,
                        *resolved);
  Run run;
  TERAIO_RETURN_IF_ERROR(run_to_steady_state(executor, run));
  run.ssd_bytes_written = written_bytes;
  run.ssd_bytes_read = resolved->read_bytes[static_cast<int>(plan::Tier::kSsd)];
  run.host_bytes_written = resolved->written_bytes[static_cast<int>(plan::Tier::kHost)];
  run.host_bytes_read = resolved->read_bytes[static_cast<int>(plan::Tier::kHost)];
  return run;
}

Result<Run> simulate(const trace::Trace& trace, const hardware::Hardware& hardware,
                     const plan::Limits& limits, const plan::Plan& plan) {
  return Simulator(trace, hardware, limits).run(plan);
}

}  // namespace teraio::simulate
