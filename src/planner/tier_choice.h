// TierChoice: gives the scarce tier to the copies that earn most there.
//
// A copy on the host tier saves the time that the drives would take to write it and to read it back
// at each use, and takes room from its write to its last read. The copies with the most time saved
// per byte and time of rest get the room: gradients and parameters, which pass many times in a
// step, before optimizer states, which pass once. A copy whose write to the drives would end after
// its next read must begin goes before all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hardware/hardware.h"
#include "planner/memory_curve.h"
#include "planner/period_move.h"
#include "planner/problem.h"
#include "planner/timeline.h"

namespace teraio::planner {

// One thread at a time may use it. Refers to the problem and the timeline.
class TierChoice {
 public:
  TierChoice(const Problem& problem, const Timeline& timeline);

  // Sets which of the moved periods write, and the tier of each. Returns what host memory has in
  // use above its capacity; nullopt when the tiers have no room for all copies.
  std::optional<MemoryCurve> choose(std::vector<PeriodMove>& moves);

 private:
  // The copy that the moved periods of an epoch share.
  struct Copy {
    int32_t epoch = 0;
    int64_t size_bytes = 0;
    int64_t first = 0;  // the ops during which it rests on its tier
    int64_t end = 0;
    double saved_ns = 0;  // by the host tier
    double worth = 0;     // nanoseconds saved per byte and nanosecond of rest
  };

  std::vector<Copy> copies_of(std::vector<PeriodMove>& moves) const;
  void add_period(Copy& copy, int32_t period, PeriodMove& move, bool is_first) const;
  std::optional<MemoryCurve> assign(const std::vector<Copy>& copies,
                                    std::vector<PeriodMove>& moves) const;
  bool find_urgent(const std::vector<PeriodMove>& moves);

  const Problem& problem_;
  const Timeline& timeline_;
  const Rates ssd_;
  const int64_t host_bytes_;
  const int64_t ssd_bytes_;
  std::vector<uint8_t> is_urgent_;  // per epoch
};

}  // namespace teraio::planner
