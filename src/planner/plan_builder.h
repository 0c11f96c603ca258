// PlanBuilder: a plan under construction: the inactive periods during which tensors are offloaded,
// their tiers, and the effect on memory, bandwidth and the tiers.
//
// A period that is moved frees the bytes of its tensor from `free_from`, when its write is planned
// to end, to `needed_from`, when its read must start. Among the moved periods of an epoch, the
// first one writes; the others drop the tensor and use the same copy. A period that ends when the
// tensor is freed has no read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "planner/bandwidth_ledger.h"
#include "planner/memory_curve.h"
#include "planner/period_move.h"
#include "planner/problem.h"
#include "planner/timeline.h"
#include "trace/lifetimes.h"

namespace teraio::planner {

struct PlanBuilderOptions {
  bool clean_copies = true;  // false: every moved period writes
  bool early_writes = true;  // see Candidate::early_writer
  // The price of a nanosecond of reading and of writing at each op; empty: 1 everywhere.
  std::vector<double> read_price;
  std::vector<double> write_price;
  // A factor on the cost of writes to the drives, which has an effect only above 1: the cost of a
  // copy is then divided among the periods of its epoch, in proportion to the pressure that each
  // relieves.
  double ssd_write_price = 1;
  // The price of room in host memory: what the rest of a copy there for a whole step costs, as a
  // multiple of the time that the drives would take to write and to read it once. The tier is then
  // chosen by cost, too. 0: room is free, and relief alone decides.
  double host_price = 0;
  // The share of the drives' bandwidth that may be booked. On a fast link, drives that are booked
  // to the last are late at every op.
  double drive_share = 1;
  // Tensors for which request latency is a larger share of the read time than this get no timed
  // candidates.
  double latency_share_max = 1;
  // Per epoch: the write budget reserves room for its copy. Empty: none.
  std::vector<uint8_t> reserved_epochs;
  // Per period: the host tier reserves room for its copy. The other periods of its epoch are then
  // not moved, and the epoch does not use the drives. Empty: none.
  std::vector<uint8_t> reserved_host_periods;
  std::vector<uint8_t> fixed_periods;      // per period: not moved; empty: none
  std::vector<int32_t> discarded_periods;  // their bytes are free; they must be fixed
  std::vector<double> op_ns;               // the timeline that bandwidth is booked on
  std::vector<double> op_weights;          // the weight of pressure at each op; empty: op_ns
};

// The effect of moving one period.
struct Candidate {
  int32_t period = -1;
  plan::Tier tier = plan::Tier::kSsd;
  bool writes = false;
  int64_t free_from = 0;  // unrolled ops
  int64_t needed_from = 0;
  double benefit = 0;  // byte-nanoseconds of pressure
  double cost = 0;     // nanoseconds of transfers
  // An earlier period of the epoch that takes over the write at a time when the channels are idle.
  // It is moved together with this period, which then only drops. -1: none.
  int32_t early_writer = -1;
  int64_t early_free_from = 0;
  int64_t early_needed_from = 0;

  double score() const { return benefit / cost; }
};

// A value type that refers to its problem; one thread at a time may use it. A `period` or `index`
// is a position in lifetimes.periods, an `epoch` a position in lifetimes.epochs.
class PlanBuilder {
 public:
  struct Move : PeriodMove {
    int64_t planned_from = 0;  // when the read should start if memory allows
    BandwidthLedger::Booking read;
    BandwidthLedger::Booking write;
  };

  // The copy that the periods of an epoch use at present.
  struct Copy {
    int32_t first = -1;  // the first and the last moved period of the epoch
    int32_t last = -1;
    bool exists() const { return first >= 0; }
    bool operator==(const Copy&) const = default;
  };

  // `problem` must outlive the builder.
  PlanBuilder(const Problem& problem, PlanBuilderOptions options);

  // Returns the candidate on the best tier under the bandwidth that is left; nullopt when no tier
  // can take the period.
  std::optional<Candidate> timed_candidate(int32_t period) const;
  // The same as if bandwidth were unlimited: the bytes are free from the trigger of the offload to
  // the next use. Also nullopt when that relieves nothing.
  std::optional<Candidate> untimed_candidate(int32_t period) const;
  // The same on one tier, without its benefit, which may be 0.
  std::optional<Candidate> untimed_candidate_on(int32_t period, plan::Tier tier) const;

  // Moves the period of the candidate, and its early writer.
  void move(const Candidate& candidate);
  // Lets tensors stay in discarded periods where memory is left, and otherwise moves them. Returns
  // false, and changes no discard, when the bandwidth or the memory does not allow it.
  bool move_instead(const std::vector<int32_t>& discarded);
  // Reverts the move of a period. Returns false, and changes nothing, for the writer of a copy that
  // other periods use.
  bool revert(int32_t period);

  // Keeps `size_bytes` of the budget free; negative: gives them back.
  void keep_free(int64_t size_bytes) { excess_.add(0, problem_->op_count(), size_bytes); }
  // Discards the planned times: every move frees its bytes from its trigger to the next use.
  void forget_timing();
  // Moves all moved periods of an epoch, of which there must be one, and `period` to `tier`,
  // untimed. Returns false, and changes nothing, when the tier has no room for them.
  bool relocate(int32_t period, plan::Tier tier);
  // Changes the op from which the bytes of a moved period are needed again.
  void set_needed_from(int32_t period, int64_t op);
  // Has a moved period that writes to the drives rest in host memory first. Returns false, and
  // changes nothing, when the device or the bandwidth of host memory has no room for that.
  // Bandwidth stays booked where it was.
  bool relay(int32_t period, const Relay& relay);

  // The copy of the period's epoch.
  const Copy& copy(int32_t index) const { return copies_[period(index).epoch]; }
  // Returns the tier of that copy; nullopt when there is none.
  std::optional<plan::Tier> tier_of_copy(int32_t index) const {
    if (!copy(index).exists()) return std::nullopt;
    return moves_[copy(index).first].tier;
  }
  bool moved(int32_t period) const { return moves_[period].moved; }
  const Move& at(int32_t period) const { return moves_[period]; }
  // The device bytes above the budget at each op, with all moves.
  const MemoryCurve& excess() const { return excess_; }
  const Problem& problem() const { return *problem_; }
  const BandwidthLedger& ledger() const { return ledger_; }
  // What host memory has in use above its capacity, without relays.
  const MemoryCurve& host_use() const { return tier_use(plan::Tier::kHost); }
  int64_t ssd_bytes_written() const { return ssd_bytes_written_; }

 private:
  const trace::InactivePeriod& period(int32_t index) const {
    return problem_->lifetimes.periods[index];
  }
  const trace::CopyEpoch& epoch(int32_t index) const {
    return problem_->lifetimes.epochs[period(index).epoch];
  }
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
  double room_cost(int32_t index) const;
  std::optional<Candidate> timed_candidate_on(int32_t index, plan::Tier tier) const;
  std::optional<Candidate> early_write_candidate(int32_t index, plan::Tier tier) const;
  bool move_discarded(int32_t index);
  void discard_again(int32_t index);
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
  Timeline timeline_;
  BandwidthLedger ledger_;
  MemoryCurve excess_;
  std::array<int64_t, 2> tier_capacity_bytes_;
  std::array<bool, 2> tier_is_roomy_;    // the tier can hold all tensors at once
  std::array<MemoryCurve, 2> tier_use_;  // above the tier's capacity
  std::vector<Move> moves_;              // per period
  std::vector<Copy> copies_;             // per epoch
  std::vector<uint8_t> reserved_host_epochs_;
  int64_t ssd_bytes_written_ = 0;
  int64_t reserved_bytes_ = 0;  // of reserved copies that no move writes yet
};

}  // namespace teraio::planner
