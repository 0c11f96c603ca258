// The trade-off between time and the wear of the drives: the fastest plan for each write budget.
//
//   step
//     | *                     Plans for the minimum budget write what they have to, whenever that
//     is. |   *                   More writes let the planner choose the tensors whose transfers
//     hide |      *    *     *     best behind compute, until writing more gains nothing.
//     +------------------- bytes written
//     minimum         without a budget
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/machine_config.h"
#include "base/status.h"
#include "planner/planner.h"
#include "trace/trace.h"

namespace teraio::analysis {

// Returns at most `count` (at least 2) budgets at even steps from the minimum to what the plan
// without one writes; none when that plan writes nothing. Ignores the machine's own write budget.
// Fails as plan() does.
Result<std::vector<int64_t>> write_budgets(const trace::Trace& trace, MachineConfig machine,
                                           const planner::PlannerOptions& options, int count);

struct WriteTradeOff {
  int64_t write_budget_bytes = 0;  // per iteration
  int64_t ssd_bytes_written = 0;
  int64_t step_ns = 0;
  bool operator==(const WriteTradeOff&) const = default;
};

// Returns the fastest plan's point for each of these budgets, in order of the budget; the last one
// is that of the plan without a budget. The time never grows with the budget, because a plan for a
// smaller one serves a larger one too. Fails as plan() does.
Result<std::vector<WriteTradeOff>> write_trade_off(const trace::Trace& trace, MachineConfig machine,
                                                   const planner::PlannerOptions& options,
                                                   int point_count = 6);

}  // namespace teraio::analysis
