// The trade-off between step time and drive wear: the fastest plan for each write budget.
//
//   step
//     | *                     With the minimum budget, a plan writes what it must, even if
//     |   *                   it stalls. With more, it can choose tensors whose transfers
//     |      *    *     *     hide behind compute, until more writes gain nothing.
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

// Returns at most `count` (at least 2) budgets at even steps from the minimum to the bytes that the
// plan without a budget writes; none when that plan writes nothing. Ignores the write budget of the
// machine. Fails as plan() does.
Result<std::vector<int64_t>> write_budgets(const trace::Trace& trace, MachineConfig machine,
                                           const planner::PlannerOptions& options, int count);

struct WriteTradeOff {
  int64_t write_budget_bytes = 0;  // per iteration
  int64_t ssd_bytes_written = 0;
  int64_t step_ns = 0;
  bool operator==(const WriteTradeOff&) const = default;
};

// Returns a point per budget, in ascending order: the budgets of write_budgets() for `point_count`,
// of which the last stands for the plan without a budget. The step time never grows with the
// budget, because a plan for a smaller budget is also valid for a larger one. Ignores the write
// budget of the machine. Fails as plan() does.
Result<std::vector<WriteTradeOff>> write_trade_off(const trace::Trace& trace, MachineConfig machine,
                                                   const planner::PlannerOptions& options,
                                                   int point_count = 6);

}  // namespace teraio::analysis
