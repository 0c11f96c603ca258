#include "planner/problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulate/tier_capacities.h"
#include "trace/trace_file.h"

namespace teraio::planner {

int64_t Problem::tier_capacity_bytes(plan::Tier tier) const {
  return simulate::TierCapacities(hardware, limits)[tier];
}

std::vector<double> Problem::op_ns() const {
  return {index.duration_ns.begin(), index.duration_ns.end()};
}

bool Problem::everything_fits() const {
  return std::ranges::all_of(lifetimes.footprint_bytes,
                             [this](int64_t bytes) { return bytes <= budget_bytes(); });
}

Status check_inputs(const trace::Trace& trace, const hardware::Hardware& hardware) {
  TERAIO_RETURN_IF_ERROR(validate(trace).with_context(trace.name));
  return validate(hardware).with_context(hardware.name);
}

Status check_every_op_fits(const Problem& problem) {
  const std::vector<int64_t>& active = problem.lifetimes.active_bytes;
  const auto largest = std::max_element(active.begin(), active.end());
  if (largest == active.end() || *largest <= problem.budget_bytes()) return Status();
  const auto op = largest - active.begin();
  return Status(
      ErrorCode::kOutOfMemory,
      fmt::format("op {} ({}) needs {} bytes at once, the device budget is {}; the least "
                  "budget that would do is {}",
                  op, problem.trace.ops[op].name, *largest, problem.budget_bytes(), *largest));
}

}  // namespace teraio::planner
