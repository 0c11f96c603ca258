// NextUse: plans that keep on the device what is used next.
//
// Every tensor leaves when it becomes idle. Then, in the order of their next uses, tensors come
// back as early as memory allows; one that comes back as it leaves stays. This is Belady's rule
// with the earliest reads, and takes no more time than the sorting of the periods: it plans steps
// of 100,000 ops in a second. Bandwidth plays a part through the timeline alone: memory is not free
// before the write of what held it has ended, and the tiers are chosen by what they save
// (TierChoice).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "planner/bandwidth_ledger.h"
#include "planner/memory_curve.h"
#include "planner/period_move.h"
#include "planner/problem.h"
#include "planner/timeline.h"

namespace teraio::planner {

struct NextUseOptions {
  // The share of the budget that is left for tensors that are being written.
  double headroom_share = 0;
  // Whether memory is taken for reads only from where the channel can begin with them: tensors then
  // stay that would leave for reads which wait. Otherwise reads take it as early as they can.
  bool reads_late = false;
  // Whether copies may rest in host memory before they go on to the drives: see RelayChoice.
  bool relays = false;
};

// One thread at a time may use it. Refers to the problem.
class NextUse {
 public:
  NextUse(const Problem& problem, const NextUseOptions& options);

  // Returns the plan for a timeline. The first plan does not know yet which tensors are written and
  // where, so that each plan knows the writes of the one before. nullopt when the tiers have no
  // room.
  std::optional<plan::Plan> next(const Timeline& timeline);

 private:
  bool is_over_the_end(int32_t period) const {
    return problem_.lifetimes.periods[period].end >= problem_.op_count();
  }
  void leave_all();
  void wait_for_writes(const Timeline& timeline, MemoryCurve& excess);
  void hold_relays(MemoryCurve& excess);
  void find_latest_reads(const Timeline& timeline);
  void return_in_order(MemoryCurve& excess);
  void return_from(int64_t op, int32_t index, MemoryCurve& excess);
  int64_t last_stay(int64_t first, int64_t end, int64_t size_bytes,
                    const MemoryCurve& excess) const;
  double transfer_ns(const PeriodMove& move, Direction direction, int64_t size_bytes) const;

  const Problem& problem_;
  const NextUseOptions options_;
  std::vector<int64_t> least_excess_bytes_;  // per op, when every idle tensor is away
  std::vector<int32_t> order_;               // periods, as their tensors come back
  std::vector<PeriodMove> moves_;            // per period
  std::vector<int64_t> latest_reads_;        // per period: the op at which its read must begin
};

}  // namespace teraio::planner
