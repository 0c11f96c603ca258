#include "simulate/resolved_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace teraio::simulate {
namespace {

constexpr int32_t kNone = -1;

int64_t usable(int64_t capacity_bytes, const hardware::Rates& rates) {
  const bool moves = rates.read_bytes_per_second > 0 && rates.write_bytes_per_second > 0;
  return moves ? capacity_bytes : 0;
}

// What a walk knows of its tensor.
struct TensorState {
  bool offloaded = false;
  plan::Tier tier = plan::Tier::kSsd;  // where the latest copy was made
  bool copy_valid = false;             // no op wrote the tensor since
  int32_t kept_copy_of = kNone;   // the prefetch whose copy is there still, if a drop comes for it
  int32_t last_prefetch = kNone;  // since the last use
  int32_t offloaded_by = kNone;   // the offload or drop after which it is offloaded
};

class Resolver {
 public:
  Resolver(const plan::Plan& plan, const trace::Trace& trace, const trace::TraceIndex& index,
           const TierCapacities& tiers)
      : plan_(plan), trace_(trace), index_(index), tiers_(tiers) {}

  Result<ResolvedPlan> run() {
    for (size_t i = 0; i < plan_.migrations.size(); ++i) TERAIO_RETURN_IF_ERROR(check_fields(i));
    order_by_trigger();
    order_by_tensor();
    resolved_.keeps_copy.assign(plan_.migrations.size(), 0);
    for (trace::TensorIndex tensor : moved_) TERAIO_RETURN_IF_ERROR(check_tensor(tensor));
    find_final_offloads();
    add_up_bytes();
    return std::move(resolved_);
  }

 private:
  Status broken(std::string_view rule, size_t migration) const {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}", rule, describe(plan_, trace_, migration)));
  }

  Status check_fields(size_t i) const {
    const plan::Migration& migration = plan_.migrations[i];
    if (migration.tensor < 0 || migration.tensor >= index_.tensor_count())
      return broken("no such tensor", i);
    if (migration.trigger_op < 0 || migration.trigger_op >= index_.op_count())
      return broken("trigger out of range", i);
    if (migration.deadline_op < 0 || migration.deadline_op >= index_.op_count())
      return broken("deadline out of range", i);
    if (tiers_.capacity_bytes[static_cast<int>(migration.tier)] <= 0)
      return broken("no such tier", i);
    return check_alive(i);
  }

  Status check_alive(size_t i) const {
    const plan::Migration& migration = plan_.migrations[i];
    const trace::TensorIndex tensor = migration.tensor;
    if (index_.uses[tensor].empty())
      return broken(index_.persistent[tensor] ? "offload or drop without use" : "tensor not alive",
                    i);
    const bool alive = index_.exists_before(tensor, migration.trigger_op);
    return alive ? Status() : broken("tensor not alive", i);
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

  // The first walk only brings the tensor into its steady state; the second is the one that counts.
  Status check_tensor(trace::TensorIndex tensor) {
    TensorState state;
    if (!index_.persistent[tensor]) return walk(tensor, state);
    const plan::Migration& last = plan_.migrations[by_tensor_[tensor].back()];
    state.offloaded = last.action != plan::Action::kPrefetch;
    state.offloaded_by = by_tensor_[tensor].back();
    state.tier = last.tier;
    state.copy_valid = state.offloaded;
    give_first_copy(tensor, state);
    (void)walk(tensor, state);
    TERAIO_RETURN_IF_ERROR(walk(tensor, state));
    record_start(tensor, state);
    return Status();
  }

  // Frozen weights and constants lie from the start on the tier that their drops name.
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

  // One iteration. Stops at the first broken rule.
  Status walk(trace::TensorIndex tensor, TensorState& state) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    Status first_failure;
    size_t next_use = 0;
    for (int32_t i : by_tensor_[tensor]) {
      const trace::OpIndex trigger = plan_.migrations[i].trigger_op;
      for (; next_use < uses.size() && uses[next_use].op < trigger; ++next_use)
        keep_first(first_failure, use(tensor, uses[next_use], state));
      keep_first(first_failure, migrate(i, state));
    }
    for (; next_use < uses.size(); ++next_use)
      keep_first(first_failure, use(tensor, uses[next_use], state));
    return first_failure;
  }

  static void keep_first(Status& kept, Status status) {
    if (kept.ok()) kept = std::move(status);
  }

  Status use(trace::TensorIndex tensor, const trace::TensorUse& use, TensorState& state) const {
    state.last_prefetch = kNone;
    if (use.writes) {
      state.copy_valid = false;
      state.kept_copy_of = kNone;
    }
    if (!state.offloaded) return Status();
    return Status(
        ErrorCode::kInvalidArgument,
        fmt::format("not resident: tensor {} is offloaded when op {} ({}) uses it, since {}",
                    trace_.tensors[tensor].id, use.op, trace_.ops[use.op].name,
                    describe(plan_, trace_, state.offloaded_by)));
  }

  Status migrate(int32_t i, TensorState& state) {
    const plan::Migration& migration = plan_.migrations[i];
    if (migration.action == plan::Action::kPrefetch) return come_back(i, state);
    if (state.offloaded) return broken("already offloaded", i);
    const bool drop = migration.action == plan::Action::kDrop;
    if (drop && !state.copy_valid) return broken("drop without copy", i);
    if (drop && state.tier != migration.tier) return broken("wrong tier", i);
    if (drop && state.kept_copy_of != kNone) resolved_.keeps_copy[state.kept_copy_of] = true;
    state = {true, migration.tier, true, kNone, kNone, i};
    return Status();
  }

  Status come_back(int32_t i, TensorState& state) const {
    if (!state.offloaded) return broken("prefetch of a resident tensor", i);
    state.offloaded = false;
    if (state.tier != plan_.migrations[i].tier) return broken("wrong tier", i);
    state.kept_copy_of = i;
    state.last_prefetch = i;
    return Status();
  }

  void record_start(trace::TensorIndex tensor, const TensorState& state) {
    if (state.offloaded || state.last_prefetch != kNone) {
      resolved_.offloaded_at_start.push_back({tensor, state.tier, state.last_prefetch});
    } else if (state.kept_copy_of != kNone && resolved_.keeps_copy[state.kept_copy_of]) {
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
  const trace::Trace& trace_;
  const trace::TraceIndex& index_;
  const TierCapacities& tiers_;
  ResolvedPlan resolved_;
  trace::FlatLists<int32_t> by_tensor_;  // positions in the plan, in the order of execution
  std::vector<trace::TensorIndex> moved_;
};

}  // namespace

TierCapacities::TierCapacities(const hardware::Hardware& hardware, const plan::Limits& limits) {
  const int64_t host_bytes = std::min(
      limits.host_limit_bytes.value_or(hardware.host.capacity_bytes), hardware.host.capacity_bytes);
  capacity_bytes[static_cast<int>(plan::Tier::kHost)] = usable(host_bytes, hardware.host.rates);
  capacity_bytes[static_cast<int>(plan::Tier::kSsd)] =
      usable(ssd_capacity_bytes(hardware), ssd_rates(hardware));
}

Result<ResolvedPlan> resolve_plan(const plan::Plan& plan, const trace::Trace& trace,
                                  const trace::TraceIndex& index, const TierCapacities& tiers) {
  return Resolver(plan, trace, index, tiers).run();
}

std::string describe(const plan::Plan& plan, const trace::Trace& trace, size_t i) {
  const plan::Migration& migration = plan.migrations[i];
  const bool known = migration.tensor >= 0 && migration.tensor < trace.tensors.size();
  return fmt::format("migrations[{}] ({} of tensor {} at op {}, {})", i,
                     to_string(migration.action), known ? trace.tensors[migration.tensor].id : -1,
                     migration.trigger_op, to_string(migration.tier));
}

}  // namespace teraio::simulate
