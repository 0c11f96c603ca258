// TierCopies: where the tiers keep the bytes of tensors. The engine uses the stores through it.
//
// The copy of a tensor on a tier (TierCopy) has an extent. The extent is kept for the next write of
// the tensor, until the tier is full and needs the room of stale copies.
//
//   a copy that the plan makes   the place that the tier's layout has for it, else any room
//   any other copy               any room
//
// Threads: called under the engine's lock; no call waits for I/O.
//
// Ownership: the stores outlive this object, or the call of leave_stores(). Every tensor's copies
// have to be released before the tensor ends.
//
// Failure: a tier without enough room is a Status. A layout that does not fit, or is given up, is
// logged, and the copies get their room as they are made.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/live_tensor.h"
#include "engine/planned_copies.h"
#include "engine/profile_binding.h"
#include "iteration/schedule.h"
#include "storage/tier_store.h"

namespace teraio::engine {

class TierCopies {
 public:
  using Tensors = std::span<LiveTensor* const>;

  // A tier that does not exist is null.
  explicit TierCopies(const std::array<storage::TierStore*, kTierCount>& stores)
      : stores_(stores) {}
  TierCopies(const TierCopies&) = delete;
  TierCopies& operator=(const TierCopies&) = delete;

  // --- Room -----------------------------------------------------------------------------------

  // False for a tier that does not exist, and for one whose writes keep failing.
  bool takes_writes(plan::Tier tier) const { return store(tier) != nullptr && !is_refused(tier); }

  // The tensor's write to a tier has ended well, or has failed. A store with several drives places
  // later extents on the others, so that after a failure nothing is written to a place that was
  // reserved before. The tier takes no more writes when more of them have failed in a row than it
  // has drives, each begun after the failure before was known.
  void note_written(plan::Tier tier) { health(tier).failures_in_a_row = 0; }
  void note_failed_write(const LiveTensor& tensor, plan::Tier tier);

  // Gives the tensor's copy on the tier an extent, unless it has one. kPlanned: the copy is one of
  // the plan's. Where the tier is full, stale copies of `live` lose their extents. Requires
  // takes_writes(tier). kOutOfSpace: the tier has no room for it.
  Status reserve(LiveTensor& tensor, plan::Tier tier, storage::Priority priority, Tensors live);

  // Frees the tensor's copies on all tiers, or on all but one. Requires that none of those is being
  // moved.
  void release(LiveTensor& tensor);
  void keep_only(LiveTensor& tensor, plan::Tier kept);

  // --- Layout ---------------------------------------------------------------------------------

  // Reserves places for the copies that the schedule makes, in place of those of the schedule
  // before. Copies of `live` that are there stay where they are; stale ones lose their extents.
  void lay_out(const iteration::Schedule& schedule, const ProfileBinding& binding, Tensors live);

  // Copies get their places as they are made, until lay_out() is called again.
  void forget_layouts();

  // Gives the places that no copy uses back. True: there were some.
  bool give_up_layouts();

  // --- Transfers ------------------------------------------------------------------------------

  // Moves the bytes of the tensor from or to its copy on the tier. The transfer lacks its extent.
  void submit(LiveTensor& tensor, plan::Tier tier, storage::Transfer transfer);
  // As for TierStore, of the tensor's transfer that was submitted last.
  void cancel(const LiveTensor& tensor);
  void expedite(const LiveTensor& tensor);

  // As for TierStore, of all tiers.
  void fail_unanswered() const;
  std::vector<std::string> unanswered(int64_t at_least_ns) const;

  // The stores may go: no tier exists from now on. Requires that no tensor has a copy.
  void leave_stores();

 private:
  // Of the writes to one tier.
  struct Health {
    storage::TransferId last_transfer = 0;  // that was submitted
    storage::TransferId last_before_failure = 0;
    int32_t failures_in_a_row = 0;
    bool has_failed_places = false;  // extents and layout may lie where a write failed
    bool is_refused = false;
  };

  void release(LiveTensor& tensor, plan::Tier tier);
  storage::TierStore* store(plan::Tier tier) const { return stores_[static_cast<size_t>(tier)]; }
  Health& health(plan::Tier tier) { return health_[static_cast<size_t>(tier)]; }
  bool is_refused(plan::Tier tier) const { return health_[static_cast<size_t>(tier)].is_refused; }
  void leave_failed_places(plan::Tier tier, Tensors live);
  bool give_up_layout(plan::Tier tier);
  std::optional<storage::Extent> reserve_planned(const LiveTensor& tensor, plan::Tier tier);
  bool reclaim_stale(plan::Tier tier, Tensors live);
  void lay_out_tier(plan::Tier tier, const iteration::Schedule& schedule,
                    const ProfileBinding& binding);

  std::array<storage::TierStore*, kTierCount> stores_;
  std::array<Health, kTierCount> health_ = {};
  std::array<PlannedCopies, kTierCount> layouts_;  // without copies: no layout
};

}  // namespace teraio::engine
