// Problem: the input of a planner: a trace with its index and lifetimes, a machine and limits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/lifetimes.h"
#include "trace/trace.h"
#include "trace/trace_index.h"

namespace teraio::planner {

// Refers to all of its parts, which must outlive it. Several threads may read it at once. A period
// is a position in lifetimes.periods.
struct Problem {
  const trace::Trace& trace;
  const trace::TraceIndex& index;
  const trace::Lifetimes& lifetimes;
  const hardware::Hardware& hardware;
  const plan::Limits& limits;

  int64_t op_count() const { return static_cast<int64_t>(index.op_count()); }
  int64_t budget_bytes() const {
    return limits.device_budget_bytes.value_or(hardware.device_memory_bytes);
  }
  int64_t tier_capacity_bytes(plan::Tier tier) const;
  int64_t size_bytes(int32_t period) const {
    return index.size_bytes[lifetimes.periods[period].tensor];
  }
  // Where a period begins, unrolled from the start of its epoch.
  int64_t position(int32_t period) const;
  // The end (exclusive) of the ops during which the copy of a period is on its tier: right after
  // the next use, because the read may last until then, or at the death of the tensor.
  int64_t end_of_rest(int32_t period) const;
  // The ideal timeline: the duration of each op.
  std::vector<double> op_ns() const;
  // Whether every op fits into the budget when nothing moves.
  bool everything_fits() const;
  // Returns the same problem under other limits, which must outlive the result.
  Problem under(const plan::Limits& other) const {
    return {trace, index, lifetimes, hardware, other};
  }
};

// Builds the Problem of these inputs and returns the result of `solve`. Fails instead with
// kInvalidArgument when the trace or the hardware breaks a rule of its format, and with
// kOutOfMemory when an op needs more than the budget whatever moves: the message names the op, its
// bytes and the least sufficient budget.
template <typename T>
Result<T> solve_problem(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits,
                        const std::function<Result<T>(const Problem&)>& solve);

// The two checks of solve_problem().
Status check_inputs(const trace::Trace& trace, const hardware::Hardware& hardware);
Status check_every_op_fits(const Problem& problem);

template <typename T>
Result<T> solve_problem(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits,
                        const std::function<Result<T>(const Problem&)>& solve) {
  TERAIO_RETURN_IF_ERROR(check_inputs(trace, hardware));
  const trace::TraceIndex index(trace);
  const trace::Lifetimes lifetimes = lifetimes_of(index, limits.smallest_tensor_bytes);
  const Problem problem{trace, index, lifetimes, hardware, limits};
  TERAIO_RETURN_IF_ERROR(check_every_op_fits(problem));
  return solve(problem);
}

}  // namespace teraio::planner
