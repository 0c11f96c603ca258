// RelayChoice: copies that the update makes for the drives may rest in host memory first, where
// gradients have left room: these relays pass the device in the next iteration, one after the
// other, as the drives become idle. The device does not wait for the drives then.
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

// Any thread may use it. Refers to the problem and the timeline.
class RelayChoice {
 public:
  // `host`: what host memory has in use above its capacity.
  RelayChoice(const Problem& problem, const Timeline& timeline, MemoryCurve host);

  // Gives the moves their relays, as far as host memory has room.
  void find(std::vector<PeriodMove>& moves) const;

 private:
  std::vector<int32_t> possible_relays(const std::vector<PeriodMove>& moves) const;
  void choose_relays(const std::vector<int32_t>& possible, double start_ns,
                     std::vector<PeriodMove>& moves) const;
  double end_of_direct_writes(const std::vector<int32_t>& possible,
                              const std::vector<PeriodMove>& moves) const;
  std::optional<Relay> relay_at(double start_ns, int32_t index, const PeriodMove& move,
                                const MemoryCurve& host) const;
  double write_ns(int32_t index) const;

  const Problem& problem_;
  const Timeline& timeline_;
  const Rates ssd_;
  const MemoryCurve host_;
};

// Takes away the relays that are not possible, or no longer. `host`: what host memory has in use
// above its capacity, without them. A pure function.
void leave_out_relays(const Problem& problem, MemoryCurve host, std::vector<PeriodMove>& moves);

}  // namespace teraio::planner
