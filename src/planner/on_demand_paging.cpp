#include "planner/on_demand_paging.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "simulate/tier_capacities.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

// The state at the end of an iteration usually settles within two or three iterations. When it does
// not, every persistent tensor that op 0 does not use is offloaded at the start of each iteration,
// so that it does.
constexpr int kIterationsMax = 6;

enum class Location : uint8_t { kDevice, kSsd, kHost };

plan::Tier tier_of(Location location) {
  return location == Location::kSsd ? plan::Tier::kSsd : plan::Tier::kHost;
}

struct TensorState {
  Location location = Location::kDevice;
  bool ssd_copy = false;   // it is valid, and its bytes are accounted for
  bool host_copy = false;  // the same; ends at the next use unless the options keep it
  uint32_t next_use = 0;   // position in the tensor's uses
  bool operator==(const TensorState&) const = default;
};

class OnDemandPaging {
 public:
  OnDemandPaging(const trace::Trace& trace, const hardware::Hardware& hardware,
                 const plan::Limits& limits, const OnDemandOptions& options)
      : trace_(trace),
        index_(trace),
        options_(options),
        tiers_(hardware, limits),
        budget_bytes_(limits.device_budget_bytes.value_or(hardware.device_memory_bytes)),
        states_(index_.tensor_count()),
        active_at_(index_.tensor_count(), -1),
        scheduled_offloads_(
            by_op(options.scheduled, index_.op_count(), &ScheduledMigration::offload_op)),
        scheduled_prefetches_(
            by_op(options.scheduled, index_.op_count(), &ScheduledMigration::prefetch_op)),
        prefetches_(index_.op_count()),
        rank_of_(index_.tensor_count()) {
    plan_.trace = trace.name;
  }

  Result<plan::Plan> run() {
    rank_persistent_tensors();
    for (int i = 0; i < 2 * kIterationsMax; ++i) {
      offload_all_at_start_ = i >= kIterationsMax;
      const std::vector<TensorState> before = states_;
      plan_.migrations.clear();
      TERAIO_RETURN_IF_ERROR(run_iteration());
      if (states_ == before) return std::move(plan_);
    }
    return Status(ErrorCode::kInternal, "paging on demand does not settle");
  }

 private:
  using Rank = std::pair<int64_t, trace::TensorIndex>;  // the smallest rank is evicted first

  static trace::FlatLists<trace::TensorIndex> by_op(
      const std::vector<ScheduledMigration>& scheduled, size_t op_count,
      trace::OpIndex ScheduledMigration::*op) {
    return trace::FlatLists<trace::TensorIndex>(op_count, [&scheduled, op](auto add) {
      for (const ScheduledMigration& move : scheduled) add(move.*op, move.tensor);
    });
  }

  int64_t size(trace::TensorIndex tensor) const { return index_.size_bytes[tensor]; }
  int64_t op_count() const { return static_cast<int64_t>(index_.op_count()); }

  void rank_persistent_tensors() {
    device_bytes_ = index_.persistent_bytes;
    for (size_t i = 0; i < index_.tensor_count(); ++i)
      if (index_.persistent[i]) enter_ranking(static_cast<trace::TensorIndex>(i));
  }

  Status run_iteration() {
    for (trace::OpIndex op = 0; op < op_count(); ++op) TERAIO_RETURN_IF_ERROR(run_op(op));
    first_op_ += op_count();
    for (size_t i = 0; i < states_.size(); ++i) states_[i].next_use = 0;
    if (options_.eviction_policy == EvictionPolicy::kFarthestNextUse) rebuild_ranking();
    return Status();
  }

  Status run_op(trace::OpIndex op) {
    now_ = op;
    for (trace::TensorIndex tensor : index_.active[op]) active_at_[tensor] = first_op_ + op;
    if (offload_all_at_start_ && op == 0) TERAIO_RETURN_IF_ERROR(evict_all());
    for (trace::TensorIndex tensor : scheduled_offloads_[op])
      if (is_resident(tensor) && !is_active(tensor)) TERAIO_RETURN_IF_ERROR(evict(tensor, op));
    for (trace::TensorIndex tensor : index_.births[op]) allocate(tensor);
    for (trace::TensorIndex tensor : index_.active[op])
      if (states_[tensor].location != Location::kDevice) prefetch(tensor);
    TERAIO_RETURN_IF_ERROR(make_room(op));
    prefetch_scheduled(op);
    for (trace::TensorIndex tensor : index_.active[op]) complete_use(tensor);
    for (trace::TensorIndex tensor : index_.deaths[op]) free(tensor);
    return Status();
  }

  bool is_active(trace::TensorIndex tensor) const { return active_at_[tensor] == first_op_ + now_; }
  bool is_resident(trace::TensorIndex tensor) const {
    return states_[tensor].location == Location::kDevice && index_.exists_before(tensor, now_);
  }

  void allocate(trace::TensorIndex tensor) {
    device_bytes_ += size(tensor);
    enter_ranking(tensor);
  }

  void free(trace::TensorIndex tensor) {
    leave_ranking(tensor);
    if (states_[tensor].location == Location::kDevice) device_bytes_ -= size(tensor);
    forget_copies_of(tensor);
    states_[tensor] = TensorState();
  }

  Status make_room(trace::OpIndex op) {
    while (device_bytes_ + index_.workspace_bytes[op] > budget_bytes_) {
      const trace::TensorIndex victim = choose_victim();
      if (victim < 0) return too_large(op);
      TERAIO_RETURN_IF_ERROR(evict(victim, op));
    }
    return Status();
  }

  Status too_large(trace::OpIndex op) const {
    const std::string_view beside =
        options_.may_move.empty() ? "" : " beside what the policy does not move";
    return Status(
        ErrorCode::kOutOfMemory,
        fmt::format("op {} ({}) needs {} bytes{}, the device budget is {}", op, trace_.ops[op].name,
                    device_bytes_ + index_.workspace_bytes[op], beside, budget_bytes_));
  }

  trace::TensorIndex choose_victim() const {
    for (const auto& [rank, tensor] : ranking_)
      if (!is_active(tensor) && size(tensor) > 0 && can_move(tensor)) return tensor;
    return -1;
  }

  bool can_move(trace::TensorIndex tensor) const {
    return !index_.uses[tensor].empty() && (options_.may_move.empty() || options_.may_move[tensor]);
  }
  bool keeps_host_copy(trace::TensorIndex tensor) const {
    return !options_.keeps_host_copy.empty() && options_.keeps_host_copy[tensor];
  }
  bool is_used_again(trace::TensorIndex tensor) const {
    return index_.persistent[tensor] || states_[tensor].next_use < index_.uses[tensor].size();
  }

  Status evict_all() {
    for (size_t i = 0; i < index_.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (index_.persistent[i] && is_resident(tensor) && !is_active(tensor))
        TERAIO_RETURN_IF_ERROR(evict(tensor, 0));
    }
    return Status();
  }

  Status evict(trace::TensorIndex tensor, trace::OpIndex op) {
    TensorState& state = states_[tensor];
    if (!can_move(tensor)) return Status();
    const bool drop = state.ssd_copy || state.host_copy;
    if (!drop) TERAIO_RETURN_IF_ERROR(choose_tier(tensor));
    if (drop) state.location = state.host_copy ? Location::kHost : Location::kSsd;
    const plan::Action action = drop ? plan::Action::kDrop : plan::Action::kOffload;
    plan_.migrations.push_back({tensor, action, op, op, tier_of(state.location)});
    leave_ranking(tensor);
    device_bytes_ -= size(tensor);
    schedule_prefetch(tensor);
    return Status();
  }

  // Schedules the prefetch ahead of the next use; in the next iteration when its op has passed
  // already.
  void schedule_prefetch(trace::TensorIndex tensor) {
    if (options_.prefetch_ops.empty() || !is_used_again(tensor)) return;
    prefetches_[options_.prefetch_ops[next_use_op(tensor)]].push_back(tensor);
  }

  // Chooses the first tier with room. When the tiers are full, gives up the copies of resident
  // tensors.
  Status choose_tier(trace::TensorIndex tensor) {
    TensorState& state = states_[tensor];
    if (has_room(plan::Tier::kHost, tensor)) {
      state.location = Location::kHost;
      state.host_copy = true;
    } else if (options_.use_ssd && has_room(plan::Tier::kSsd, tensor)) {
      state.location = Location::kSsd;
      state.ssd_copy = true;
    } else if (forget_copies_of_residents()) {
      return choose_tier(tensor);
    } else {
      return Status(ErrorCode::kOutOfSpace,
                    fmt::format("no tier has room for the {} bytes that leave at op {} ({}): "
                                "host holds {}, SSD {}",
                                size(tensor), now_, trace_.ops[now_].name, used(plan::Tier::kHost),
                                used(plan::Tier::kSsd)));
    }
    used(tier_of(state.location)) += size(tensor);
    return Status();
  }

  bool has_room(plan::Tier tier, trace::TensorIndex tensor) {
    return used(tier) + size(tensor) <= tiers_[tier];
  }

  // Returns whether a tier has more room afterwards.
  bool forget_copies_of_residents() {
    const std::array<int64_t, 2> before = tier_bytes_;
    for (size_t i = 0; i < states_.size(); ++i)
      if (states_[i].location == Location::kDevice)
        forget_copies_of(static_cast<trace::TensorIndex>(i));
    return tier_bytes_ != before;
  }

  void forget_copies_of(trace::TensorIndex tensor) {
    if (std::exchange(states_[tensor].ssd_copy, false)) used(plan::Tier::kSsd) -= size(tensor);
    forget_host_copy(tensor);
  }

  void forget_host_copy(trace::TensorIndex tensor) {
    if (std::exchange(states_[tensor].host_copy, false)) used(plan::Tier::kHost) -= size(tensor);
  }

  void prefetch(trace::TensorIndex tensor) {
    TensorState& state = states_[tensor];
    const plan::Tier tier = tier_of(state.location);
    state.location = Location::kDevice;
    plan_.migrations.push_back({tensor, plan::Action::kPrefetch, now_, next_use_op(tensor), tier});
    device_bytes_ += size(tensor);
    enter_ranking(tensor);
  }

  void prefetch_scheduled(trace::OpIndex op) {
    for (trace::TensorIndex tensor : scheduled_prefetches_[op]) prefetch_if_room(tensor, op);
    for (trace::TensorIndex tensor : std::exchange(prefetches_[op], {}))
      prefetch_if_room(tensor, op);
  }

  void prefetch_if_room(trace::TensorIndex tensor, trace::OpIndex op) {
    const int64_t needed = device_bytes_ + index_.workspace_bytes[op] + size(tensor);
    if (states_[tensor].location != Location::kDevice && needed <= budget_bytes_) prefetch(tensor);
  }

  // The op of the iteration that uses the tensor next; its first use when no use is left.
  trace::OpIndex next_use_op(trace::TensorIndex tensor) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const uint32_t next = states_[tensor].next_use;
    return next < uses.size() ? uses[next].op : uses.front().op;
  }

  void complete_use(trace::TensorIndex tensor) {
    leave_ranking(tensor);
    if (index_.uses[tensor][states_[tensor].next_use++].writes) forget_copies_of(tensor);
    if (!keeps_host_copy(tensor)) forget_host_copy(tensor);
    enter_ranking(tensor);
  }

  Rank rank(trace::TensorIndex tensor) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const uint32_t next = states_[tensor].next_use;
    if (options_.eviction_policy == EvictionPolicy::kFarthestNextUse) {
      // Its death frees the memory without a write.
      if (!is_used_again(tensor)) return {-(first_op_ + index_.last_op[tensor] + 1), tensor};
      const bool this_iteration = next < uses.size();
      const int64_t op = uses.empty() ? 0 : next_use_op(tensor) + (this_iteration ? 0 : op_count());
      return {-(first_op_ + op), tensor};
    }
    const int64_t last = active_at_[tensor];
    return {last, tensor};
  }

  void enter_ranking(trace::TensorIndex tensor) {
    ranking_.insert(rank_of_[tensor] = rank(tensor));
  }
  void leave_ranking(trace::TensorIndex tensor) { ranking_.erase(rank_of_[tensor]); }

  // Positions in the uses restart with each iteration; the distances to the next use stay the same.
  void rebuild_ranking() {
    ranking_.clear();
    for (size_t i = 0; i < states_.size(); ++i)
      if (index_.persistent[i] && states_[i].location == Location::kDevice)
        enter_ranking(static_cast<trace::TensorIndex>(i));
  }

  int64_t& used(plan::Tier tier) { return tier_bytes_[static_cast<int>(tier)]; }

  const trace::Trace& trace_;
  const trace::TraceIndex index_;
  const OnDemandOptions& options_;
  const simulate::TierCapacities tiers_;
  const int64_t budget_bytes_;
  std::vector<TensorState> states_;
  std::vector<int64_t> active_at_;  // per tensor: the latest op that uses it, over all iterations
  trace::FlatLists<trace::TensorIndex> scheduled_offloads_;
  trace::FlatLists<trace::TensorIndex> scheduled_prefetches_;
  std::vector<std::vector<trace::TensorIndex>>
      prefetches_;             // per op: tensors to prefetch ahead of their use
  std::set<Rank> ranking_;     // of the tensors on the device
  std::vector<Rank> rank_of_;  // per tensor: its entry in the ranking
  std::array<int64_t, 2> tier_bytes_{};
  int64_t device_bytes_ = 0;
  int64_t first_op_ = 0;  // of the iteration, over all iterations
  trace::OpIndex now_ = 0;
  bool offload_all_at_start_ = false;
  plan::Plan plan_;
};

}  // namespace

Result<plan::Plan> plan_on_demand(const trace::Trace& trace, const hardware::Hardware& hardware,
                                  const plan::Limits& limits, const OnDemandOptions& options) {
  return OnDemandPaging(trace, hardware, limits, options).run();
}

}  // namespace teraio::planner
