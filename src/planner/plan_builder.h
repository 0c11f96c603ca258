// PlanBuilder: a plan in the making. Which inactive periods are spent offloaded, on
// which tier, and what that does to memory, bandwidth and the tiers.
//
// A period that is moved frees its tensor's bytes from `free_from`, when its write is planned to be
// done, to `needed_from`, when its read has to start. Of the moved periods of one epoch the first
// one writes; the others drop the tensor and use the same copy. A period until the tensor is freed
// has no read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "planner/bandwidth_ledger.h"
#include "planner/memory_curve.h"
#include "planner/problem.h"
#include "trace/lifetimes.h"

namespace teraio::planner {

struct PlanBuilderOptions {
  bool clean_copies = true;  // false: every moved period writes
  bool early_writes = true;  // see Candidate::early_writer
  // What a nanosecond of reading and writing costs, per op; empty: 1 everywhere.
  std::vector<double> read_price;
  std::vector<double> write_price;
  // What writing to the drives costs more than its time. Above 1 the price of a copy is shared out
  // over the periods of its epoch, by the pressure that each relieves.
  double ssd_write_price = 1;
  // Tensors whose transfers would be request latency to more than this part get no timed
  // candidates.
  double latency_share_max = 1;
  // Per epoch: the write budget keeps room for its copy. Empty: for none.
  std::vector<uint8_t> reserved_epochs;
  // Per period: the host keeps room for it. Its epoch's others then stay, and so do the drives out
  // of it. Empty: for none.
  std::vector<uint8_t> reserved_host_periods;
  std::vector<double> op_ns;       // the timeline that bandwidth is booked on
  std::vector<double> op_weights;  // what pressure at each op counts; empty: op_ns
};

// What moving a period would bring.
struct Candidate {
  int32_t period = -1;
  plan::Tier tier = plan::Tier::kSsd;
  bool writes = false;
  int64_t free_from = 0;  // unrolled ops
  int64_t needed_from = 0;
  double benefit = 0;  // byte-nanoseconds of pressure
  double cost = 0;     // nanoseconds of transfers
  // An earlier period of the epoch that takes over the write, where the channels are idle: moved
  // with this one, which then only drops. -1: none.
  int32_t early_writer = -1;
  int64_t early_free_from = 0;
  int64_t early_needed_from = 0;

  double score() const { return benefit / cost; }
};

class PlanBuilder {
 public:
  struct Move {
    bool moved = false;
    bool writes = false;
    plan::Tier tier = plan::Tier::kSsd;
    int64_t free_from = 0;
    int64_t needed_from = 0;
    int64_t planned_from = 0;  // when the read would have to start, if there is memory for it
    BandwidthLedger::Booking read;
    BandwidthLedger::Booking write;
  };

  // `problem` must outlive the builder.
  PlanBuilder(const Problem& problem, PlanBuilderOptions options);

  // The best of the tiers, under the bandwidth that is left; nothing when no tier takes the period.
  std::optional<Candidate> timed_candidate(int32_t period) const;
  // As if bandwidth were endless: free from the offload's trigger to the next use.
  std::optional<Candidate> untimed_candidate(int32_t period) const;
  std::optional<Candidate> untimed_candidate_on(int32_t period, plan::Tier tier) const {
    return candidate_on(period, tier, false);
  }

  void move(const Candidate& candidate);
  // Takes a period back. Refused (false) for the writer of a copy that other periods use.
  bool revert(int32_t period);

  // Counts every move as free from its trigger to its next use.
  void forget_timing();
  // Takes all moved periods of an epoch that has some back and moves them, and `period`, to `tier`.
  // Untimed. False, and nothing changed, when the tier has no room for that.
  bool relocate(int32_t period, plan::Tier tier);
  // Changes when a moved period's bytes are needed again.
  void set_needed_from(int32_t period, int64_t op);

  // Where the copy of the period's epoch lies; nothing when there is none.
  std::optional<plan::Tier> tier_of_copy(int32_t index) const {
    if (!copy(index).exists()) return std::nullopt;
    return moves_[copy(index).first].tier;
  }
  // The copy that a moved period uses is not needed once it is back: no later drop names it.
  bool is_last_use_of_copy(int32_t index) const {
    return copy(index).last == index && !epoch(index).never_written;
  }
  // A copy of the epoch, which has moved periods, rests on its tier when the iteration begins.
  bool copy_rests_at_start(int32_t epoch) const;
  bool moved(int32_t period) const { return moves_[period].moved; }
  const Move& at(int32_t period) const { return moves_[period]; }
  // Device bytes above the budget per op; moves taken into account.
  const MemoryCurve& excess() const { return excess_; }
  const Problem& problem() const { return *problem_; }
  const BandwidthLedger& ledger() const { return ledger_; }
  int64_t ssd_bytes_written() const { return ssd_bytes_written_; }

 private:
  const trace::InactivePeriod& period(int32_t index) const {
    return problem_->lifetimes.periods[index];
  }
  const trace::CopyEpoch& epoch(int32_t index) const {
    return problem_->lifetimes.epochs[period(index).epoch];
  }
  // The copy that a period would use, as it is now.
  struct Copy {
    int32_t first = -1;  // the moved periods of the epoch that come first and last
    int32_t last = -1;
    bool exists() const { return first >= 0; }
  };
  const Copy& copy(int32_t index) const { return copies_[period(index).epoch]; }
  int64_t position(int32_t index) const;  // unrolled from the start of its epoch
  int64_t end_of_rest(int32_t index) const;
  bool would_write(int32_t index) const;
  bool is_first(int32_t index) const;
  bool tier_has_room(int32_t index, plan::Tier tier) const;
  bool may_use(int32_t index, plan::Tier tier) const;
  bool is_reserved(int32_t index) const;
  void reserve_host();
  bool has_reserved_host(int32_t index) const;
  bool may_use_reserved_host(int32_t index, plan::Tier tier) const;
  bool within_write_budget(int32_t index) const;
  void count_write(int32_t index, plan::Tier tier, int64_t sign);
  double share_of_write(int32_t index) const;
  template <typename Visit>
  void for_new_occupancy(int32_t index, Visit visit) const;
  std::optional<int64_t> read_start(int32_t index, plan::Tier tier, int64_t first) const;
  double read_cost(int32_t index, plan::Tier tier) const;
  double write_cost(int32_t index, plan::Tier tier) const;
  std::optional<Candidate> candidate_on(int32_t index, plan::Tier tier, bool timed) const;
  std::optional<Candidate> early_write_candidate(int32_t index, plan::Tier tier) const;
  void move_alone(const Candidate& candidate);
  void hand_over_write(int32_t index);
  void occupy(int32_t index, plan::Tier tier, int64_t sign);
  void update_copy(int32_t index);
  MemoryCurve& tier_use(plan::Tier tier) { return tier_use_[static_cast<size_t>(tier)]; }
  const MemoryCurve& tier_use(plan::Tier tier) const {
    return tier_use_[static_cast<size_t>(tier)];
  }

  const Problem* problem_;
  PlanBuilderOptions options_;
  BandwidthLedger ledger_;
  MemoryCurve excess_;
  std::array<int64_t, 2> tier_capacity_bytes_;
  std::array<bool, 2> tier_is_roomy_;    // holds all tensors at once
  std::array<MemoryCurve, 2> tier_use_;  // above the tier's capacity
  std::vector<Move> moves_;              // per period
  std::vector<Copy> copies_;             // per epoch
  std::vector<uint8_t> reserved_host_epochs_;
  int64_t ssd_bytes_written_ = 0;
  int64_t reserved_bytes_ = 0;  // of reserved copies that are not written so far
};

}  // namespace teraio::planner
