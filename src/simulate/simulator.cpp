#include "simulate/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "plan/validator.h"
#include "simulate/channels.h"
#include "simulate/plan_executor.h"
#include "simulate/replayed_trace.h"
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

  int64_t write_budget_bytes() const {
    return limits.write_budget_bytes.value_or(std::numeric_limits<int64_t>::max());
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

// Executes a plan that moves tensors of `trace`. Returns nullopt when a migration is not possible.
std::optional<Result<Run>> execute(const PlanExecutor::Context& context,
                                   const Channels& idle_channels, const plan::Plan& plan,
                                   int64_t write_budget_bytes) {
  const std::optional<ResolvedPlan> resolved = resolve_plan(plan, context.index, context.tiers);
  if (!resolved) return std::nullopt;
  const int64_t written_bytes = resolved->written_bytes[static_cast<int>(plan::Tier::kSsd)];
  if (written_bytes > write_budget_bytes) return std::nullopt;
  PlanExecutor executor(context, idle_channels, plan, *resolved);
  Run run;
  if (Status status = run_to_steady_state(executor, run); !status.ok()) return status;
  run.ssd_bytes_written = written_bytes;
  run.ssd_bytes_read = resolved->read_bytes[static_cast<int>(plan::Tier::kSsd)];
  run.host_bytes_written = resolved->written_bytes[static_cast<int>(plan::Tier::kHost)];
  run.host_bytes_read = resolved->read_bytes[static_cast<int>(plan::Tier::kHost)];
  return run;
}

// The end of the last replay that reads the temporary of step `s`.
int64_t temporary_end_ns(const ReplayedTrace& replayed, size_t s,
                         const std::vector<int64_t>& start_ns) {
  size_t last = s;
  for (size_t t = s + 1; replayed.steps[t].is_replay; ++t)
    if (const std::vector<trace::TensorIndex>& reads = replayed.trace.ops[t].reads;
        std::ranges::find(reads, replayed.steps[s].temporary) != reads.end())
      last = t;
  return start_ns[last] + replayed.trace.ops[last].duration_ns;
}

// Tells a run of `replayed` as one of the original trace, with its replays beside its ops.
Run run_of_original(Run run, const ReplayedTrace& replayed, const plan::Plan& plan) {
  const std::vector<int64_t> start_ns = std::exchange(run.op_start_ns, {});
  for (size_t s = 0; s < replayed.steps.size(); ++s) {
    const ReplayStep& step = replayed.steps[s];
    const trace::Op& op = replayed.trace.ops[s];
    if (!step.is_replay) {
      run.op_start_ns.push_back(start_ns[s]);
      continue;
    }
    run.replay_ns += op.duration_ns;
    run.replays.push_back({step.op, step.before_op, start_ns[s], start_ns[s] + op.duration_ns,
                           op.workspace_bytes, step.restores});
    if (step.temporary < 0) continue;
    run.replays.back().temporary_bytes = replayed.trace.tensors[step.temporary].size_bytes;
    run.replays.back().temporary_end_ns = temporary_end_ns(replayed, s, start_ns);
  }
  run.ideal_ns -= run.replay_ns;
  for (TransferRecord& record : run.transfers) record.tensor = replayed.original[record.tensor];
  for (size_t i = 0; i < plan.migrations.size(); ++i) {
    if (plan.migrations[i].action != plan::Action::kDiscard) continue;
    const trace::OpIndex before = replayed.step_of_action[i] - 1;
    run.discards.push_back(
        {plan.migrations[i].tensor, start_ns[before] + replayed.trace.ops[before].duration_ns});
  }
  std::ranges::stable_sort(run.discards, {}, &DiscardRecord::time_ns);
  return run;
}

}  // namespace

Result<Run> Simulator::run(const plan::Plan& plan) const {
  if (has_replays(plan)) return run_with_replays(plan);
  const State& s = *state_;
  const std::optional<Result<Run>> run = execute({s.trace, s.index, s.tiers, s.device_budget_bytes},
                                                 s.idle_channels, plan, s.write_budget_bytes());
  return run ? *run : s.refusal(plan);
}

Result<Run> Simulator::run_with_replays(const plan::Plan& plan) const {
  const State& s = *state_;
  const std::optional<ReplayedTrace> replayed = replay_trace(s.trace, s.index, plan);
  if (!replayed) return s.refusal(plan);
  const trace::TraceIndex index(replayed->trace);
  const std::optional<Result<Run>> run =
      execute({replayed->trace, index, s.tiers, s.device_budget_bytes}, s.idle_channels,
              moves_on(*replayed, plan), s.write_budget_bytes());
  if (!run || !run->ok()) {  // a message that names ops of the original trace, where there is one
    const Status refusal = s.refusal(plan);
    return !run || refusal.code() == ErrorCode::kInvalidArgument ? refusal : run->status();
  }
  return run_of_original(**run, *replayed, plan);
}

Result<Run> simulate(const trace::Trace& trace, const hardware::Hardware& hardware,
                     const plan::Limits& limits, const plan::Plan& plan) {
  return Simulator(trace, hardware, limits).run(plan);
}

}  // namespace teraio::simulate
