#include "analysis/write_trade_off.h"

#include <algorithm>

#include "analysis/planned_run.h"
#include "base/check.h"

namespace teraio::analysis {
namespace {

// The ends of the range of budgets.
struct BudgetRange {
  int64_t min_bytes = 0;
  simulate::Run unlimited;  // the run without a budget
};

// Requires that `machine` has no write budget.
Result<BudgetRange> budget_range(const trace::Trace& trace, const MachineConfig& machine,
                                 const planner::PlannerOptions& options) {
  const Result<int64_t> min_bytes =
      planner::min_write_budget_bytes(trace, machine.hardware, machine.limits);
  if (!min_bytes.ok()) return min_bytes.status();
  Result<simulate::Run> unlimited = planned_run(trace, machine, options);
  if (!unlimited.ok()) return unlimited.status();
  return BudgetRange{*min_bytes, std::move(*unlimited)};
}

// Returns only the minimum when the plan without a budget writes no more than that, which happens
// because the minimum is found greedily.
std::vector<int64_t> even_budgets(const BudgetRange& range, int count) {
  const int64_t last = std::max(range.min_bytes, range.unlimited.ssd_bytes_written);
  const int64_t step = (last - range.min_bytes) / (count - 1);
  std::vector<int64_t> budgets;
  for (int i = 0; i + 1 < count; ++i) budgets.push_back(range.min_bytes + step * i);
  budgets.push_back(last);
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

void add(const simulate::Run& run, int64_t budget_bytes, std::vector<WriteTradeOff>& points) {
  WriteTradeOff point{budget_bytes, run.ssd_bytes_written, run.step_ns};
  if (!points.empty() && points.back().step_ns <= point.step_ns) {
    point.step_ns = points.back().step_ns;
    point.ssd_bytes_written = points.back().ssd_bytes_written;
  }
  points.push_back(point);
}

}  // namespace

Result<std::vector<int64_t>> write_budgets(const trace::Trace& trace, MachineConfig machine,
                                           const planner::PlannerOptions& options, int count) {
  TERAIO_CHECK(count >= 2);
  machine.limits.write_budget_bytes.reset();
  const Result<BudgetRange> range = budget_range(trace, machine, options);
  if (!range.ok()) return range.status();
  if (range->unlimited.ssd_bytes_written == 0) return std::vector<int64_t>();
  return even_budgets(*range, count);
}

Result<std::vector<WriteTradeOff>> write_trade_off(const trace::Trace& trace, MachineConfig machine,
                                                   const planner::PlannerOptions& options,
                                                   int point_count) {
  TERAIO_CHECK(point_count >= 2);
  machine.limits.write_budget_bytes.reset();
  const Result<BudgetRange> range = budget_range(trace, machine, options);
  if (!range.ok()) return range.status();
  std::vector<int64_t> budgets = even_budgets(*range, point_count);
  budgets.pop_back();
  std::vector<WriteTradeOff> points;
  for (const int64_t budget_bytes : budgets) {
    machine.limits.write_budget_bytes = budget_bytes;
    const Result<simulate::Run> run = planned_run(trace, machine, options);
    if (!run.ok()) return run.status();
    add(*run, budget_bytes, points);
  }
  add(range->unlimited, range->unlimited.ssd_bytes_written, points);
  return points;
}

}  // namespace teraio::analysis
