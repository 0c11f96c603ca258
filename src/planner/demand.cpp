#include "planner/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "simulate/resolved_plan.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

// States settle within two or three iterations; one that does not is made to begin afresh.
constexpr int kIterationsMax = 6;

enum class Place : uint8_t { kDevice, kSsd, kHost };

plan::Tier tier_of(Place place) {
  return place == Place::kSsd ? plan::Tier::kSsd : plan::Tier::kHost;
}

struct Page {
  Place place = Place::kDevice;
  bool ssd_copy = false;   // valid, and accounted for
  bool host_copy = false;  // the same; until the first use after it came back
  uint32_t next_use = 0;   // position in the tensor's uses
  bool operator==(const Page&) const = default;
};

class Pager {
 public:
  Pager(const trace::Trace& trace, const hardware::Hardware& hardware, const plan::Limits& limits,
        const DemandOptions& options)
      : trace_(trace),
        index_(trace),
        options_(options),
        tiers_(hardware, limits),
        budget_bytes_(limits.device_budget_bytes.value_or(hardware.device_memory_bytes)),
        pages_(index_.tensor_count()),
        active_at_(index_.tensor_count(), -1),
        leaving_(by_op(options.moves, index_.op_count(), &ScheduledMove::leave_op)),
        returning_(by_op(options.moves, index_.op_count(), &ScheduledMove::return_op)),
        called_back_(index_.op_count()),
        ranked_(index_.tensor_count()) {
    plan_.trace = trace.name;
  }

  Result<plan::Plan> run() {
    place_at_start();
    for (int i = 0; i < 2 * kIterationsMax; ++i) {
      afresh_ = i >= kIterationsMax;
      const std::vector<Page> before = pages_;
      plan_.migrations.clear();
      TERAIO_RETURN_IF_ERROR(run_iteration());
      if (pages_ == before) return std::move(plan_);
    }
    return Status(ErrorCode::kInternal, "paging on demand does not settle");
  }

 private:
  using Rank = std::pair<int64_t, trace::TensorIndex>;  // the first one is evicted first

  static trace::FlatLists<trace::TensorIndex> by_op(const std::vector<ScheduledMove>& moves,
                                                    size_t op_count,
                                                    trace::OpIndex ScheduledMove::*op) {
    return trace::FlatLists<trace::TensorIndex>(op_count, [&moves, op](auto add) {
      for (const ScheduledMove& move : moves) add(move.*op, move.tensor);
    });
  }

  int64_t size(trace::TensorIndex tensor) const { return index_.size_bytes[tensor]; }
  int64_t op_count() const { return static_cast<int64_t>(index_.op_count()); }

  void place_at_start() {
    device_bytes_ = index_.persistent_bytes;
    for (size_t i = 0; i < index_.tensor_count(); ++i)
      if (index_.persistent[i]) enter_ranking(static_cast<trace::TensorIndex>(i));
  }

  Status run_iteration() {
    for (trace::OpIndex op = 0; op < op_count(); ++op) TERAIO_RETURN_IF_ERROR(run_op(op));
    first_op_ += op_count();
    for (size_t i = 0; i < pages_.size(); ++i) pages_[i].next_use = 0;
    if (options_.victim == Victim::kFarthestNextUse) rank_again();
    return Status();
  }

  Status run_op(trace::OpIndex op) {
    now_ = op;
    for (trace::TensorIndex tensor : index_.active[op]) active_at_[tensor] = first_op_ + op;
    if (afresh_ && op == 0) TERAIO_RETURN_IF_ERROR(evict_all());
    for (trace::TensorIndex tensor : leaving_[op])
      if (resident(tensor) && !active(tensor)) TERAIO_RETURN_IF_ERROR(evict(tensor, op));
    for (trace::TensorIndex tensor : index_.births[op]) be_born(tensor);
    for (trace::TensorIndex tensor : index_.active[op])
      if (pages_[tensor].place != Place::kDevice) call_back(tensor);
    TERAIO_RETURN_IF_ERROR(make_room(op));
    return_scheduled(op);
    for (trace::TensorIndex tensor : index_.active[op]) pass_use(tensor);
    for (trace::TensorIndex tensor : index_.deaths[op]) die(tensor);
    return Status();
  }

  bool active(trace::TensorIndex tensor) const { return active_at_[tensor] == first_op_ + now_; }
  bool resident(trace::TensorIndex tensor) const {
    if (pages_[tensor].place != Place::kDevice) return false;
    return index_.persistent[tensor] ||
           (index_.first_op[tensor] < now_ && now_ <= index_.last_op[tensor]);
  }

  void be_born(trace::TensorIndex tensor) {
    device_bytes_ += size(tensor);
    enter_ranking(tensor);
  }

  void die(trace::TensorIndex tensor) {
    leave_ranking(tensor);
    if (pages_[tensor].place == Place::kDevice) device_bytes_ -= size(tensor);
    if (pages_[tensor].host_copy) used(plan::Tier::kHost) -= size(tensor);
    forget_copy(tensor);
    pages_[tensor] = Page();
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
    return Status(
        ErrorCode::kOutOfMemory,
        fmt::format("op {} ({}) needs {} bytes, the device budget is {}", op, trace_.ops[op].name,
                    device_bytes_ + index_.workspace_bytes[op], budget_bytes_));
  }

  trace::TensorIndex choose_victim() const {
    for (const auto& [rank, tensor] : ranking_)
      if (!active(tensor) && size(tensor) > 0 && can_move(tensor)) return tensor;
    return -1;
  }

  bool can_move(trace::TensorIndex tensor) const { return !index_.uses[tensor].empty(); }
  bool used_again(trace::TensorIndex tensor) const {
    return index_.persistent[tensor] || pages_[tensor].next_use < index_.uses[tensor].size();
  }

  Status evict_all() {
    for (size_t i = 0; i < index_.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (index_.persistent[i] && resident(tensor) && !active(tensor))
        TERAIO_RETURN_IF_ERROR(evict(tensor, 0));
    }
    return Status();
  }

  Status evict(trace::TensorIndex tensor, trace::OpIndex op) {
    Page& page = pages_[tensor];
    if (!can_move(tensor)) return Status();
    const bool drop = page.ssd_copy || page.host_copy;
    if (!drop) TERAIO_RETURN_IF_ERROR(choose_tier(tensor));
    if (drop) page.place = page.host_copy ? Place::kHost : Place::kSsd;
    const plan::Action action = drop ? plan::Action::kDrop : plan::Action::kOffload;
    plan_.migrations.push_back({tensor, action, op, op, tier_of(page.place)});
    leave_ranking(tensor);
    device_bytes_ -= size(tensor);
    call_back_ahead(tensor);
    return Status();
  }

  // Tells the op that comes first enough; of the next iteration when that is over in this one.
  void call_back_ahead(trace::TensorIndex tensor) {
    if (options_.called_back_at.empty() || !used_again(tensor)) return;
    called_back_[options_.called_back_at[next_use_op(tensor)]].push_back(tensor);
  }

  // The first tier with room; copies of tensors on the device make way on the drives.
  Status choose_tier(trace::TensorIndex tensor) {
    Page& page = pages_[tensor];
    if (options_.use_host && has_room(plan::Tier::kHost, tensor)) {
      page.place = Place::kHost;
      page.host_copy = true;
    } else if (options_.use_ssd && has_room(plan::Tier::kSsd, tensor)) {
      page.place = Place::kSsd;
      page.ssd_copy = true;
    } else if (options_.use_ssd && forget_copies()) {
      return choose_tier(tensor);
    } else {
      return Status(ErrorCode::kOutOfSpace,
                    fmt::format("no tier has room for the {} bytes that leave at op {} ({}): "
                                "host holds {}, SSD {}",
                                size(tensor), now_, trace_.ops[now_].name, used(plan::Tier::kHost),
                                used(plan::Tier::kSsd)));
    }
    used(tier_of(page.place)) += size(tensor);
    return Status();
  }

  bool has_room(plan::Tier tier, trace::TensorIndex tensor) {
    return used(tier) + size(tensor) <= tiers_.capacity_bytes[static_cast<int>(tier)];
  }

  bool forget_copies() {
    const int64_t before = used(plan::Tier::kSsd);
    for (size_t i = 0; i < pages_.size(); ++i)
      if (pages_[i].place == Place::kDevice) forget_copy(static_cast<trace::TensorIndex>(i));
    return used(plan::Tier::kSsd) < before;
  }

  void forget_copy(trace::TensorIndex tensor) {
    if (pages_[tensor].ssd_copy) used(plan::Tier::kSsd) -= size(tensor);
    pages_[tensor].ssd_copy = false;
  }

  void call_back(trace::TensorIndex tensor) {
    Page& page = pages_[tensor];
    const plan::Tier tier = tier_of(page.place);
    page.place = Place::kDevice;
    plan_.migrations.push_back({tensor, plan::Action::kPrefetch, now_, next_use_op(tensor), tier});
    device_bytes_ += size(tensor);
    enter_ranking(tensor);
  }

  void return_scheduled(trace::OpIndex op) {
    for (trace::TensorIndex tensor : returning_[op]) return_if_room(tensor, op);
    for (trace::TensorIndex tensor : std::exchange(called_back_[op], {}))
      return_if_room(tensor, op);
  }

  void return_if_room(trace::TensorIndex tensor, trace::OpIndex op) {
    const int64_t needed = device_bytes_ + index_.workspace_bytes[op] + size(tensor);
    if (pages_[tensor].place != Place::kDevice && needed <= budget_bytes_) call_back(tensor);
  }

  // In the iteration; the first use when none is left in this one.
  trace::OpIndex next_use_op(trace::TensorIndex tensor) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const uint32_t next = pages_[tensor].next_use;
    return next < uses.size() ? uses[next].op : uses.front().op;
  }

  void pass_use(trace::TensorIndex tensor) {
    leave_ranking(tensor);
    if (index_.uses[tensor][pages_[tensor].next_use++].writes) forget_copy(tensor);
    if (std::exchange(pages_[tensor].host_copy, false)) used(plan::Tier::kHost) -= size(tensor);
    enter_ranking(tensor);
  }

  Rank rank(trace::TensorIndex tensor) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const uint32_t next = pages_[tensor].next_use;
    if (options_.victim == Victim::kFarthestNextUse) {
      // Room that its death makes soon is not worth a write.
      if (!used_again(tensor)) return {-(first_op_ + index_.last_op[tensor] + 1), tensor};
      const bool this_iteration = next < uses.size();
      const int64_t op = uses.empty() ? 0 : next_use_op(tensor) + (this_iteration ? 0 : op_count());
      return {-(first_op_ + op), tensor};
    }
    const int64_t last = active_at_[tensor];
    return {last, tensor};
  }

  void enter_ranking(trace::TensorIndex tensor) { ranking_.insert(ranked_[tensor] = rank(tensor)); }
  void leave_ranking(trace::TensorIndex tensor) { ranking_.erase(ranked_[tensor]); }

  // Positions in the uses start over with the iteration; distances stay what they are.
  void rank_again() {
    ranking_.clear();
    for (size_t i = 0; i < pages_.size(); ++i)
      if (index_.persistent[i] && pages_[i].place == Place::kDevice)
        enter_ranking(static_cast<trace::TensorIndex>(i));
  }

  int64_t& used(plan::Tier tier) { return tier_bytes_[static_cast<int>(tier)]; }

  const trace::Trace& trace_;
  const trace::TraceIndex index_;
  const DemandOptions& options_;
  const simulate::TierCapacities tiers_;
  const int64_t budget_bytes_;
  std::vector<Page> pages_;
  std::vector<int64_t> active_at_;  // per tensor: the latest op that uses it, over all iterations
  trace::FlatLists<trace::TensorIndex> leaving_;
  trace::FlatLists<trace::TensorIndex> returning_;
  std::vector<std::vector<trace::TensorIndex>>
      called_back_;           // per op: to come back ahead of their use
  std::set<Rank> ranking_;    // of the tensors on the device
  std::vector<Rank> ranked_;  // what each was entered with
  std::array<int64_t, 2> tier_bytes_{};
  int64_t device_bytes_ = 0;
  int64_t first_op_ = 0;  // of the iteration, over all iterations
  trace::OpIndex now_ = 0;
  bool afresh_ = false;
  plan::Plan plan_;
};

}  // namespace

Result<plan::Plan> plan_on_demand(const trace::Trace& trace, const hardware::Hardware& hardware,
                                  const plan::Limits& limits, const DemandOptions& options) {
  return Pager(trace, hardware, limits, options).run();
}

}  // namespace teraio::planner
