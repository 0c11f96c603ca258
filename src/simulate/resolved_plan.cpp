#include "simulate/resolved_plan.h"

#include <algorithm>

namespace teraio::simulate {
namespace {

constexpr int32_t kNoPrefetch = -1;

// The state of one tensor during a walk over its uses and migrations.
struct TensorState {
  bool offloaded = false;
  plan::Tier tier = plan::Tier::kSsd;   // of the latest copy
  bool copy_valid = false;              // no op has written the tensor since the copy was made
  int32_t kept_copy_of = kNoPrefetch;   // the prefetch whose copy stays if a later drop uses it
  int32_t last_prefetch = kNoPrefetch;  // since the last use
};

class Resolver {
 public:
  Resolver(const plan::Plan& plan, const trace::TraceIndex& index, const TierCapacities& tiers)
      : plan_(plan), index_(index), tiers_(tiers) {}

  std::optional<ResolvedPlan> run() {
    for (const plan::Migration& migration : plan_.migrations)
      if (!is_known(migration)) return std::nullopt;
    order_by_trigger();
    order_by_tensor();
    resolved_.keeps_copy.assign(plan_.migrations.size(), 0);
    for (trace::TensorIndex tensor : moved_)
      if (!resolve_tensor(tensor)) return std::nullopt;
    find_final_offloads();
    add_up_bytes();
    return std::move(resolved_);
  }

 private:
  // Whether its tensor, ops and tier exist, and the tensor is alive when the migration is issued.
  bool is_known(const plan::Migration& migration) const {
    const auto is_op = [this](trace::OpIndex op) { return op >= 0 && op < index_.op_count(); };
    return migration.tensor >= 0 && migration.tensor < index_.tensor_count() &&
           is_op(migration.trigger_op) && is_op(migration.deadline_op) &&
           uses_tier(migration.action) && tiers_[migration.tier] > 0 &&
           !index_.uses[migration.tensor].empty() &&
           index_.exists_before(migration.tensor, migration.trigger_op);
  }

  void order_by_trigger() {
    resolved_.issued_at = trace::FlatLists<int32_t>(index_.op_count(), [this](auto add) {
      for (size_t i = 0; i < plan_.migrations.size(); ++i)
        add(plan_.migrations[i].trigger_op, static_cast<int32_t>(i));
    });
  }

  void order_by_tensor() {
    by_tensor_ = trace::FlatLists<int32_t>(index_.tensor_count(), [this](auto add) {
      for (size_t k = 0; k < index_.op_count(); ++k)
        for (int32_t i : resolved_.issued_at[k]) add(plan_.migrations[i].tensor, i);
    });
    for (size_t tensor = 0; tensor < index_.tensor_count(); ++tensor)
      if (!by_tensor_[tensor].empty()) moved_.push_back(static_cast<trace::TensorIndex>(tensor));
  }

  // The first walk only finds the steady state; the second one counts.
  bool resolve_tensor(trace::TensorIndex tensor) {
    TensorState state;
    if (!index_.persistent[tensor]) return walk(tensor, state);
    const plan::Migration& last = plan_.migrations[by_tensor_[tensor].back()];
    state.offloaded = last.action != plan::Action::kPrefetch;
    state.tier = last.tier;
    state.copy_valid = state.offloaded;
    give_first_copy(tensor, state);
    (void)walk(tensor, state);
    if (!walk(tensor, state)) return false;
    record_start(tensor, state);
    return true;
  }

  // A tensor that no op writes (a frozen weight or a constant) has a copy from the start, on the
  // tier that its first drop names.
  void give_first_copy(trace::TensorIndex tensor, TensorState& state) const {
    for (const trace::TensorUse& use : index_.uses[tensor])
      if (use.writes) return;
    for (int32_t i : by_tensor_[tensor])
      if (plan_.migrations[i].action == plan::Action::kDrop) {
        state.tier = plan_.migrations[i].tier;
        state.copy_valid = true;
        return;
      }
  }

  // Walks over one iteration and returns whether all of its migrations can be executed. Each one
  // takes effect even when it cannot, so that the walk ends in the steady state.
  bool walk(trace::TensorIndex tensor, TensorState& state) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    bool possible = true;
    size_t next_use = 0;
    for (int32_t i : by_tensor_[tensor]) {
      const trace::OpIndex trigger = plan_.migrations[i].trigger_op;
      for (; next_use < uses.size() && uses[next_use].op < trigger; ++next_use)
        possible &= use(uses[next_use], state);
      possible &= migrate(i, state);
    }
    for (; next_use < uses.size(); ++next_use) possible &= use(uses[next_use], state);
    return possible;
  }

  static bool use(const trace::TensorUse& use, TensorState& state) {
    state.last_prefetch = kNoPrefetch;
    if (use.writes) {
      state.copy_valid = false;
      state.kept_copy_of = kNoPrefetch;
    }
    return !state.offloaded;
  }

  bool migrate(int32_t i, TensorState& state) {
    const plan::Migration& migration = plan_.migrations[i];
    if (migration.action == plan::Action::kPrefetch) return prefetch(i, state);
    const bool is_drop = migration.action == plan::Action::kDrop;
    const bool has_copy = state.copy_valid && state.tier == migration.tier;
    const bool possible = !state.offloaded && (has_copy || !is_drop);
    if (possible && is_drop && state.kept_copy_of != kNoPrefetch)
      resolved_.keeps_copy[state.kept_copy_of] = true;
    state = {true, migration.tier, has_copy || !is_drop, kNoPrefetch, kNoPrefetch};
    return possible;
  }

  bool prefetch(int32_t i, TensorState& state) const {
    const bool possible = state.offloaded && state.tier == plan_.migrations[i].tier;
    state.offloaded = false;
    state.kept_copy_of = i;
    state.last_prefetch = i;
    return possible;
  }

  void record_start(trace::TensorIndex tensor, const TensorState& state) {
    if (state.offloaded || state.last_prefetch != kNoPrefetch) {
      resolved_.offloaded_at_start.push_back({tensor, state.tier, state.last_prefetch});
    } else if (state.kept_copy_of != kNoPrefetch && resolved_.keeps_copy[state.kept_copy_of]) {
      resolved_.kept_bytes_at_start[static_cast<int>(state.tier)] += index_.size_bytes[tensor];
    }
  }

  void find_final_offloads() {
    resolved_.final_offloads = trace::FlatLists<int32_t>(index_.op_count(), [this](auto add) {
      for (trace::TensorIndex tensor : moved_) {
        const int32_t last = by_tensor_[tensor].back();
        const bool after_last_use =
            plan_.migrations[last].trigger_op > index_.uses[tensor].back().op;
        if (after_last_use && !index_.persistent[tensor]) add(index_.last_op[tensor], last);
      }
    });
  }

  void add_up_bytes() {
    for (const plan::Migration& migration : plan_.migrations) {
      const int tier = static_cast<int>(migration.tier);
      const int64_t size_bytes = index_.size_bytes[migration.tensor];
      if (migration.action == plan::Action::kOffload) resolved_.written_bytes[tier] += size_bytes;
      if (migration.action == plan::Action::kPrefetch) resolved_.read_bytes[tier] += size_bytes;
    }
  }

  const plan::Plan& plan_;
  const trace::TraceIndex& index_;
  const TierCapacities& tiers_;
  ResolvedPlan resolved_;
  trace::FlatLists<int32_t> by_tensor_;  // positions in the plan, in the order of execution
  std::vector<trace::TensorIndex> moved_;
};

}  // namespace

std::optional<ResolvedPlan> resolve_plan(const plan::Plan& plan, const trace::TraceIndex& index,
                                         const TierCapacities& tiers) {
  return Resolver(plan, index, tiers).run();
}

}  // namespace teraio::simulate
