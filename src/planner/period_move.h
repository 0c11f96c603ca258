// PeriodMove: how a plan moves the tensor of one inactive period.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/plan.h"
#include "planner/problem.h"

namespace teraio::planner {

// The tensor leaves at `leaves_at`, its bytes are free from `free_from`, when its write is expected
// to end, to `needed_from`, when its read may start. Ops are unrolled. A value type.
struct PeriodMove {
  bool moved = false;
  bool writes = false;  // an offload; otherwise a drop, which uses the copy of an earlier move
  plan::Tier tier = plan::Tier::kSsd;
  int64_t leaves_at = 0;
  int64_t free_from = 0;
  int64_t needed_from = 0;
};

// Returns the moves as migrations, in the order in which they are issued. `move_of`: of each
// period of the problem. A pure function.
plan::Plan plan_of_moves(const Problem& problem,
                         const std::function<const PeriodMove&(int32_t)>& move_of);

}  // namespace teraio::planner
