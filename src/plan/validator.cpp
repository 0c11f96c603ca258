#include "plan/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "plan/replay_rules.h"

namespace teraio::plan {
namespace {

constexpr int64_t kNotFreed = -1;

struct Use {
  int64_t step = 0;
  bool writes = false;
};

// What a migration of the plan does to one tensor. A replay restores several.
struct Event {
  int64_t step = 0;  // it takes place right before this step, a replay in it
  size_t index = 0;  // in the plan

  auto operator<=>(const Event&) const = default;
};

// A quantity per step of the iteration, stored as differences. A range may wrap around; one of more
// than an iteration counts as one iteration.
class Curve {
 public:
  explicit Curve(size_t step_count = 0) : steps_(step_count + 1) {}

  // Adds `amount` at the unrolled steps first..last, both included.
  void add(int64_t first, int64_t last, int64_t amount) {
    const int64_t count = static_cast<int64_t>(steps_.size()) - 1;
    if (last < first) return;
    const int64_t begin = first % count;
    const int64_t end = begin + std::min(last - first + 1, count);
    steps_[begin] += amount;
    steps_[std::min(end, count)] -= amount;
    if (end > count) {
      steps_[0] += amount;
      steps_[end - count] -= amount;
    }
  }

  std::vector<int64_t> values() const {
    std::vector<int64_t> sums(steps_.size() - 1);
    std::partial_sum(steps_.begin(), steps_.end() - 1, sums.begin());
    return sums;
  }

 private:
  std::vector<int64_t> steps_;
};

struct TierRoom {
  int64_t capacity_bytes = 0;
  bool exists = false;
};

// The state of one tensor during the walk over its uses and migrations.
struct State {
  bool offloaded = false;  // or discarded
  bool discarded = false;
  Tier tier = Tier::kSsd;         // of the copy; also where the bytes of an offloaded tensor are
  bool copy_valid = false;        // no op has written the tensor since the copy was made
  int64_t offloaded_since = 0;    // unrolled step
  int64_t copy_needed_until = 0;  // unrolled step: the copy's bytes are accounted up to here
  size_t offloaded_by = 0;        // position in the plan of the migration that offloaded it
};

class Validator {
 public:
  Validator(const Plan& plan, const trace::Trace& trace, const hardware::Hardware& hardware,
            const Limits& limits)
      : plan_(plan),
        trace_(trace),
        limits_(limits),
        op_count_(static_cast<int64_t>(trace.ops.size())),
        budget_bytes_(limits.device_budget_bytes.value_or(hardware.device_memory_bytes)) {
    const int64_t host_bytes =
        std::min(limits.host_limit_bytes.value_or(hardware.host.capacity_bytes),
                 hardware.host.capacity_bytes);
    tiers_[static_cast<int>(Tier::kHost)] = {host_bytes, host_bytes > 0};
    const int64_t ssd_bytes = ssd_capacity_bytes(hardware);
    tiers_[static_cast<int>(Tier::kSsd)] = {ssd_bytes, ssd_bytes > 0};
  }

  Status run() {
    if (op_count_ == 0)
      return plan_.migrations.empty() ? Status() : broken("trigger out of range", 0);
    for (size_t i = 0; i < plan_.migrations.size(); ++i) {
      TERAIO_RETURN_IF_ERROR(check_fields(i));
    }
    steps_ = steps_of(plan_, trace_);
    TERAIO_RETURN_IF_ERROR(check_replays(plan_, trace_, steps_));
    collect();
    for (size_t tensor = 0; tensor < trace_.tensors.size(); ++tensor) {
      TERAIO_RETURN_IF_ERROR(check_tensor(static_cast<trace::TensorIndex>(tensor)));
    }
    TERAIO_RETURN_IF_ERROR(check_write_budget());
    TERAIO_RETURN_IF_ERROR(check_device());
    TERAIO_RETURN_IF_ERROR(check_tier(Tier::kHost, "host capacity"));
    return check_tier(Tier::kSsd, "SSD capacity");
  }

 private:
  Status broken(std::string_view rule, size_t index) const {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}", rule, describe(plan_, trace_, index)))
        .with_details(details_of(index));
  }

  std::vector<std::string> details_of(size_t index) const {
    if (index >= plan_.migrations.size()) return {};
    const Migration& migration = plan_.migrations[index];
    return {fmt::format(
        "migrations[{}] of {}: {}, trigger_op {}, deadline_op {}, tier {}; the trace "
        "has {} ops and {} tensors",
        index, plan_.migrations.size(), to_string(migration.action), migration.trigger_op,
        migration.deadline_op, to_string(migration.tier), op_count_, trace_.tensors.size())};
  }

  Status check_fields(size_t index) const {
    const Migration& migration = plan_.migrations[index];
    if (migration.tensor < 0 || migration.tensor >= trace_.tensors.size())
      return broken("no such tensor", index);
    if (migration.trigger_op < 0 || migration.trigger_op >= op_count_)
      return broken("trigger out of range", index);
    if (migration.deadline_op < 0 || migration.deadline_op >= op_count_)
      return broken("deadline out of range", index);
    if (uses_tier(migration.action) && !tiers_[static_cast<int>(migration.tier)].exists)
      return broken("no such tier", index);
    return Status();
  }

  void collect() {
    step_count_ = steps_.count();
    device_ = Curve(step_count_);
    tier_use_ = {Curve(step_count_), Curve(step_count_)};
    collect_uses();
    events_.resize(trace_.tensors.size());
    for (size_t i = 0; i < plan_.migrations.size(); ++i)
      if (plan_.migrations[i].action != Action::kRecompute)
        events_[plan_.migrations[i].tensor].push_back({steps_.step_of_action[i], i});
    for (int64_t s = 0; s < step_count_; ++s)
      for (trace::TensorIndex tensor : steps_.steps[s].restores)
        events_[tensor].push_back({s, steps_.steps[s].recompute});
    for (std::vector<Event>& own : events_) std::sort(own.begin(), own.end());
  }

  // A replay reads what its op reads. What it restores has the bytes that it had. Temporaries have
  // no uses: only their memory counts.
  void collect_uses() {
    uses_.resize(trace_.tensors.size());
    freed_at_.assign(trace_.tensors.size(), kNotFreed);
    for (const Temporary& temporary : steps_.temporaries)
      device_.add(temporary.first_step, temporary.last_step,
                  trace_.tensors[temporary.tensor].size_bytes);
    for (int64_t s = 0; s < step_count_; ++s) {
      const trace::Op& op = trace_.ops[steps_.steps[s].op];
      const std::vector<trace::TensorIndex>& temporaries = steps_.steps[s].temporaries;
      for (trace::TensorIndex tensor : op.reads)
        if (std::ranges::find(temporaries, tensor) == temporaries.end())
          uses_[tensor].push_back({s, false});
      if (steps_.steps[s].is_replay) continue;
      for (trace::TensorIndex tensor : op.writes) uses_[tensor].push_back({s, true});
      for (trace::TensorIndex tensor : op.frees) freed_at_[tensor] = s;
    }
  }

  Status check_tensor(trace::TensorIndex tensor) {
    const bool persistent = trace_.tensors[tensor].persistent;
    const std::vector<Use>& uses = uses_[tensor];
    if (uses.empty()) {
      if (persistent) device_.add(0, step_count_ - 1, trace_.tensors[tensor].size_bytes);
      if (events_[tensor].empty()) return Status();
      return broken(persistent ? "offload or drop without use" : "tensor not alive",
                    events_[tensor].front().index);
    }
    const int64_t last = std::max<int64_t>(uses.back().step, freed_at_[tensor]);
    if (persistent)
      device_.add(0, step_count_ - 1, trace_.tensors[tensor].size_bytes);
    else
      device_.add(uses.front().step, last, trace_.tensors[tensor].size_bytes);
    if (events_[tensor].empty()) return Status();
    return persistent ? check_persistent(tensor) : check_transient(tensor, last);
  }

  Status check_transient(trace::TensorIndex tensor, int64_t last) {
    for (const Event& event : events_[tensor])
      if (event.step <= uses_[tensor].front().step || event.step > last)
        return broken("tensor not alive", event.index);
    State state;
    TERAIO_RETURN_IF_ERROR(walk(tensor, 0, state, true));
    if (state.offloaded)
      device_.add(state.offloaded_since, last, -trace_.tensors[tensor].size_bytes);
    return Status();
  }

  // The first walk only finds the steady state, and tolerates violations that the assumed initial
  // state causes. The second walk enforces the rules and accounts for memory.
  Status check_persistent(trace::TensorIndex tensor) {
    State state;
    const Migration& last = plan_.migrations[events_[tensor].back().index];
    state.offloaded = last.action != Action::kPrefetch;
    state.offloaded_by = events_[tensor].back().index;
    state.tier = last.tier;
    if (never_written(tensor)) give_first_copy(tensor, state);
    TERAIO_RETURN_IF_ERROR(walk(tensor, 0, state, false));
    return walk(tensor, step_count_, state, true);
  }

  bool never_written(trace::TensorIndex tensor) const {
    return std::none_of(uses_[tensor].begin(), uses_[tensor].end(),
                        [](const Use& use) { return use.writes; });
  }

  // A tensor that no op writes (a frozen weight or a constant) has a copy from the start, on the
  // tier that its first drop names.
  void give_first_copy(trace::TensorIndex tensor, State& state) {
    for (const Event& event : events_[tensor]) {
      const Migration& migration = plan_.migrations[event.index];
      if (migration.action != Action::kDrop) continue;
      state.tier = migration.tier;
      state.copy_valid = true;
      state.copy_needed_until = 4 * step_count_;  // the whole run is accounted here
      tier_use(migration.tier).add(0, step_count_ - 1, trace_.tensors[tensor].size_bytes);
      return;
    }
  }

  // Walks over one iteration of the tensor, which starts at unrolled step `offset`.
  Status walk(trace::TensorIndex tensor, int64_t offset, State& state, bool account) {
    const std::vector<Event>& own = events_[tensor];
    size_t next = 0;
    for (size_t i = 0; i <= uses_[tensor].size(); ++i) {
      const int64_t until = i < uses_[tensor].size() ? uses_[tensor][i].step : step_count_ - 1;
      for (; next < own.size() && own[next].step <= until; ++next) {
        const Status status =
            migrate(tensor, own[next], offset, next_use(tensor, i), state, account);
        if (!status.ok()) return status;
      }
      if (i == uses_[tensor].size()) break;
      if (account && state.offloaded) return not_resident(tensor, until, state);
      if (uses_[tensor][i].writes) state.copy_valid = false;
    }
    return Status();
  }

  // The step of use `i` in this iteration. After the last use: the first use in the next iteration,
  // or the step that frees the tensor.
  int64_t next_use(trace::TensorIndex tensor, size_t i) const {
    const std::vector<Use>& uses = uses_[tensor];
    if (i < uses.size()) return uses[i].step;
    return trace_.tensors[tensor].persistent ? step_count_ + uses.front().step : freed_at_[tensor];
  }

  Status migrate(trace::TensorIndex tensor, const Event& event, int64_t offset, int64_t next_use,
                 State& state, bool account) {
    const Action action = plan_.migrations[event.index].action;
    const int64_t now = offset + event.step;
    if (action == Action::kPrefetch) return prefetch(event, now, state, account);
    if (action == Action::kRecompute) {
      come_back(tensor, now, state, account);
      state.copy_valid = false;
      return Status();
    }
    if (account && state.offloaded) return broken("already offloaded", event.index);
    if (action != Action::kDiscard)
      return leave_device(event, now, offset + next_use, state, account);
    state.offloaded = state.discarded = true;
    state.offloaded_since = now;
    state.offloaded_by = event.index;
    return Status();
  }

  Status prefetch(const Event& event, int64_t now, State& state, bool account) {
    const Migration& migration = plan_.migrations[event.index];
    if (account && !state.offloaded) return broken("prefetch of a resident tensor", event.index);
    if (account && state.discarded) return broken("prefetch of a discarded tensor", event.index);
    if (account && state.tier != migration.tier) return broken("wrong tier", event.index);
    come_back(migration.tensor, now, state, account);
    return Status();
  }

  void come_back(trace::TensorIndex tensor, int64_t now, State& state, bool account) {
    state.offloaded = state.discarded = false;
    if (account) device_.add(state.offloaded_since, now - 1, -trace_.tensors[tensor].size_bytes);
  }

  Status leave_device(const Event& event, int64_t now, int64_t next_use, State& state,
                      bool account) {
    const size_t index = event.index;
    const Migration& migration = plan_.migrations[index];
    const int64_t size_bytes = trace_.tensors[migration.tensor].size_bytes;
    if (migration.action == Action::kDrop) {
      if (!account && !state.copy_valid) {
        state.offloaded = true;
        state.offloaded_since = now;
        state.offloaded_by = index;
        return Status();
      }
      if (!state.copy_valid) return broken("drop without copy", index);
      if (state.tier != migration.tier) return broken("wrong tier", index);
    } else if (account) {
      if (migration.tier == Tier::kSsd) ssd_bytes_written_ += size_bytes;
      // It replaces a copy that would have rested until the next use.
      if (state.copy_valid) tier_use(state.tier).add(now, state.copy_needed_until, -size_bytes);
    }
    const int64_t occupied_from =
        migration.action == Action::kDrop ? state.copy_needed_until + 1 : now;
    if (account) tier_use(migration.tier).add(occupied_from, next_use, size_bytes);
    state = {true, false, migration.tier, true, now, std::max(next_use, occupied_from - 1), index};
    return Status();
  }

  Status not_resident(trace::TensorIndex tensor, int64_t step, const State& state) const {
    return Status(
        ErrorCode::kInvalidArgument,
        fmt::format("not resident: tensor {} is {} when {} uses it, since {}",
                    trace_.tensors[tensor].id, state.discarded ? "discarded" : "offloaded",
                    name_of(step), describe(plan_, trace_, state.offloaded_by)));
  }

  std::string name_of(int64_t index) const {
    const Step& step = steps_.steps[index];
    const std::string op = fmt::format("op {} ({})", step.op, trace_.ops[step.op].name);
    return step.is_replay ? fmt::format("the replay of {} before op {}", op, step.before_op) : op;
  }

  Status check_write_budget() const {
    if (!limits_.write_budget_bytes || ssd_bytes_written_ <= *limits_.write_budget_bytes)
      return Status();
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("write budget: {} bytes written to the SSDs, {} allowed",
                              ssd_bytes_written_, *limits_.write_budget_bytes));
  }

  Status check_device() const {
    const std::vector<int64_t> used = device_.values();
    for (size_t s = 0; s < used.size(); ++s) {
      const int64_t needed = used[s] + steps_.steps[s].workspace_bytes;
      if (needed > budget_bytes_)
        return Status(ErrorCode::kInvalidArgument,
                      fmt::format("device memory: {} needs {} bytes, the budget is {}", name_of(s),
                                  needed, budget_bytes_));
    }
    return Status();
  }

  Curve& tier_use(Tier tier) { return tier_use_[static_cast<int>(tier)]; }

  Status check_tier(Tier tier, std::string_view rule) const {
    const std::vector<int64_t> used = tier_use_[static_cast<int>(tier)].values();
    const int64_t capacity_bytes = tiers_[static_cast<int>(tier)].capacity_bytes;
    for (size_t s = 0; s < used.size(); ++s)
      if (used[s] > capacity_bytes)
        return Status(ErrorCode::kInvalidArgument,
                      fmt::format("{}: {} bytes rest there at {}, it holds {}", rule, used[s],
                                  name_of(s), capacity_bytes));
    return Status();
  }

  const Plan& plan_;
  const trace::Trace& trace_;
  const Limits& limits_;
  const int64_t op_count_;
  const int64_t budget_bytes_;
  std::array<TierRoom, 2> tiers_;
  Steps steps_;
  int64_t step_count_ = 0;
  std::vector<std::vector<Use>> uses_;      // per tensor, in order
  std::vector<int64_t> freed_at_;           // per tensor: a step
  std::vector<std::vector<Event>> events_;  // per tensor, in order
  Curve device_;
  std::array<Curve, 2> tier_use_;
  int64_t ssd_bytes_written_ = 0;
};

}  // namespace

Status validate_plan(const Plan& plan, const trace::Trace& trace,
                     const hardware::Hardware& hardware, const Limits& limits) {
  return Validator(plan, trace, hardware, limits).run();
}

}  // namespace teraio::plan
