// TierChoice: gives the scarce tier to the copies that earn most there.
//
// A copy on the host tier saves the time that the drives would take to write it and to read it back
// at each use, and takes room from its write to its last read. The copies with the most time saved
// per byte and time of rest get the room: gradients and parameters, which pass many times in a
// step, before optimizer states, which pass once. A copy whose write to the drives would end after
// its next read must begin goes before all of them.
//
// Copies that the update makes for the drives may rest in host memory first, where gradients have
// left room: these relays pass the device in the next iteration, one after the other, as the drives
// become idle. The device does not wait for the drives then.
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

  // Sets which of the moved periods write, and the tier of each, and takes away the relays that are
  // not possible then. Returns whether the tiers have room for all copies.
  bool choose(std::vector<PeriodMove>& moves);

  // Gives the moves their relays, as far as host memory has room. Requires choose().
  void find_relays(std::vector<PeriodMove>& moves) const;

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
  void leave_out_relays(std::vector<PeriodMove>& moves) const;
  std::vector<int32_t> possible_relays(const std::vector<PeriodMove>& moves) const;
  void choose_relays(const std::vector<int32_t>& possible, double start_ns,
                     std::vector<PeriodMove>& moves) const;
  double end_of_direct_writes(const std::vector<int32_t>& possible,
                              const std::vector<PeriodMove>& moves) const;
  std::optional<Relay> relay_at(double start_ns, int32_t index, const PeriodMove& move,
                                const MemoryCurve& host) const;
  double write_ns(int32_t index) const;
  bool find_urgent(const std::vector<PeriodMove>& moves);

  const Problem& problem_;
  const Timeline& timeline_;
  const Rates ssd_;
  const int64_t host_bytes_;
  const int64_t ssd_bytes_;
  std::vector<uint8_t> is_urgent_;   // per epoch
  std::optional<MemoryCurve> host_;  // what choose() has given to copies
};

// Returns the moved periods that write, in the order in which they leave.
std::vector<int32_t> writers_in_order(const Problem& problem, const std::vector<PeriodMove>& moves);

}  // namespace teraio::planner
