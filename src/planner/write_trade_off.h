// The trade-off between time and the wear of the drives: the fastest plan for each write budget.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"

namespace teraio::planner {

struct WriteTradeOff {
  int64_t write_budget_bytes = 0;  // per iteration
  int64_t ssd_bytes_written = 0;
  int64_t step_ns = 0;
  bool operator==(const WriteTradeOff&) const = default;
};

// `point_count` (at least 2) budgets at even steps from the least that does to what a plan without
// one writes; fewer when those are the same. In order of the budget; the time never grows with it.
// The limits' own write budget is ignored. Fails as plan() does.
Result<std::vector<WriteTradeOff>> write_trade_off(const trace::Trace& trace,
                                                   const hardware::Hardware& hardware,
                                                   const plan::Limits& limits,
                                                   const PlannerOptions& options,
                                                   int point_count = 6);

}  // namespace teraio::planner
