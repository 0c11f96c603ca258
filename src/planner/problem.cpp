#include "planner/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "simulate/tier_capacities.h"
#include "trace/trace_file.h"

namespace teraio::planner {

int64_t Problem::tier_capacity_bytes(plan::Tier tier) const {
  return simulate::TierCapacities(hardware, limits)[tier];
}

int64_t Problem::position(int32_t period) const {
  const std::vector<trace::InactivePeriod>& periods = lifetimes.periods;
  const int64_t start = periods[lifetimes.epochs[periods[period].epoch].periods.front()].first;
  const int64_t first = periods[period].first;
  return first < start ? first + op_count() : first;
}

int64_t Problem::end_of_rest(int32_t period) const {
  const trace::InactivePeriod& own = lifetimes.periods[period];
  return position(period) + own.end - own.first + (own.until_freed ? 0 : 1);
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

namespace {

// "op 3 (aten::mm) uses tensor 7 (parameter, 4096 bytes), tensor 9 (...) and 0 bytes of workspace",
// with the largest tensors first.
std::string used_by(const trace::Trace& trace, int64_t index) {
  constexpr size_t kTensorsNamed = 8;
  const trace::Op& op = trace.ops[index];
  std::vector<trace::TensorIndex> used = op.reads;
  used.insert(used.end(), op.writes.begin(), op.writes.end());
  std::stable_sort(used.begin(), used.end(), [&](trace::TensorIndex a, trace::TensorIndex b) {
    return trace.tensors[a].size_bytes > trace.tensors[b].size_bytes;
  });
  std::string text = fmt::format("op {} ({}) uses ", index, op.name);
  for (const trace::TensorIndex each :
       std::span(used).first(std::min(kTensorsNamed, used.size()))) {
    const trace::Tensor& tensor = trace.tensors[each];
    text += fmt::format("tensor {} ({}{}{}, {} bytes), ", tensor.id, to_string(tensor.kind),
                        tensor.name.empty() ? "" : " ", tensor.name, tensor.size_bytes);
  }
  if (used.size() > kTensorsNamed) text += fmt::format("{} others ", used.size() - kTensorsNamed);
  return text + fmt::format("and {} bytes of workspace", op.workspace_bytes);
}

}  // namespace

Status check_every_op_fits(const Problem& problem) {
  const std::vector<int64_t>& active = problem.lifetimes.active_bytes;
  const auto largest = std::max_element(active.begin(), active.end());
  if (largest == active.end() || *largest <= problem.budget_bytes()) return Status();
  const auto op = largest - active.begin();
  return Status(ErrorCode::kOutOfMemory,
                fmt::format("op {} ({}) needs {} bytes at once, the device budget is {}; the least "
                            "budget that would do is {}",
                            op, problem.trace.ops[op].name, *largest, problem.budget_bytes(),
                            *largest))
      .with_details({used_by(problem.trace, op)});
}

}  // namespace teraio::planner
