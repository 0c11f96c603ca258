#include "simulate/step_sequence.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulate/joined_trace.h"
#include "simulate/tier_capacities.h"
#include "trace/flat_lists.h"
#include "trace/trace_index.h"

namespace teraio::simulate {
namespace {

using plan::Action;
using plan::Migration;
using trace::OpIndex;
using trace::TensorIndex;

constexpr int32_t kNoAction = -1;

enum class Place : uint8_t { kAnywhere, kResident, kOffloaded };

// Where a plan expects a persistent tensor when its step begins. One that is being prefetched
// counts as resident.
struct Expectation {
  Place place = Place::kAnywhere;
  plan::Tier tier = plan::Tier::kSsd;
};

// A persistent tensor during the walk over the steps.
struct State {
  bool is_offloaded = false;
  bool has_copy = false;  // on `tier`; no op has written the tensor since it was made
  plan::Tier tier = plan::Tier::kSsd;
  int32_t last_prefetch = kNoAction;  // since its last use: a position in the actions
};

class PlanJoiner {
 public:
  PlanJoiner(std::span<const PlannedStep> steps, const JoinedTrace& joined,
             const hardware::Hardware& hardware, const plan::Limits& limits)
      : steps_(steps),
        joined_(joined),
        index_(joined.trace),
        budget_bytes_(limits.device_budget_bytes.value_or(hardware.device_memory_bytes)),
        smallest_bytes_(limits.smallest_tensor_bytes),
        has_drives_(TierCapacities(hardware, limits)[plan::Tier::kSsd] > 0),
        states_(joined.persistent_count),
        openings_(steps.size()) {}

  // The first walk only finds the state in which the sequence begins.
  plan::Plan run() {
    for (size_t s = 0; s < steps_.size(); ++s) add_actions(s);
    order_actions();
    for (size_t s = 0; s < steps_.size(); ++s) expect_places(s);
    place_at_start();
    walk();
    is_recording_ = true;
    walk();
    return joined_plan();
  }

 private:
  void add_actions(size_t s) {
    first_action_.push_back(actions_.size());
    for (const Migration& action : steps_[s].plan.migrations) {
      Migration& joined = actions_.emplace_back(action);
      joined.tensor = joined_.tensors[s][action.tensor];
      joined.trigger_op += joined_.first_op[s];
      joined.deadline_op = deadline(action, joined.tensor, s);
    }
  }

  OpIndex deadline(const Migration& action, TensorIndex tensor, size_t s) const {
    if (action.deadline_op >= action.trigger_op) return joined_.first_op[s] + action.deadline_op;
    const size_t next = (s + 1) % steps_.size();
    const OpIndex begin = joined_.first_op[next];
    if (action.action == Action::kPrefetch) return next_use(tensor, begin);
    return std::min(begin + action.deadline_op, joined_.first_op[next + 1] - 1);
  }

  OpIndex next_use(TensorIndex tensor, OpIndex op) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const auto next = std::ranges::lower_bound(uses, op, {}, &trace::TensorUse::op);
    return next == uses.end() ? uses.front().op : next->op;
  }

  void order_actions() {
    first_action_.push_back(actions_.size());
    is_left_out_.assign(actions_.size(), false);
    by_op_ = trace::FlatLists<int32_t>(index_.op_count(), [this](auto add) {
      for (size_t i = 0; i < actions_.size(); ++i) {
        const bool is_replay = actions_[i].action == Action::kRecompute;
        add(is_replay ? actions_[i].deadline_op : actions_[i].trigger_op, static_cast<int32_t>(i));
      }
    });
  }

  void expect_places(size_t s) {
    std::vector<Expectation>& expected = expected_.emplace_back(states_.size());
    for (OpIndex op = joined_.first_op[s]; op < joined_.first_op[s + 1]; ++op)
      for (TensorIndex tensor : index_.active[op])
        if (is_persistent(tensor)) expected[tensor].place = Place::kResident;
    for (OpIndex op = joined_.first_op[s]; op < joined_.first_op[s + 1]; ++op)
      for (int32_t i : by_op_[op]) {
        const Migration& action = actions_[i];
        if (!is_persistent(action.tensor)) continue;
        const bool returns = action.action == Action::kPrefetch;
        expected[action.tensor] = {returns ? Place::kResident : Place::kOffloaded, action.tier};
      }
  }

  bool is_persistent(TensorIndex tensor) const { return tensor < states_.size(); }

  void place_at_start() {
    for (size_t i = 0; i < states_.size(); ++i) {
      const Expectation& left = expected_.back()[i];
      states_[i].is_offloaded = states_[i].has_copy = left.place == Place::kOffloaded;
      states_[i].tier = left.place == Place::kOffloaded ? left.tier : first_tier();
    }
  }

  plan::Tier first_tier() const { return has_drives_ ? plan::Tier::kSsd : plan::Tier::kHost; }

  void walk() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      open_step(s);
      for (OpIndex op = joined_.first_op[s]; op < joined_.first_op[s + 1]; ++op) {
        for (int32_t i : by_op_[op]) act(i);
        run_op(joined_.trace.ops[op]);
      }
    }
  }

  void run_op(const trace::Op& op) {
    for (TensorIndex tensor : op.reads)
      if (is_persistent(tensor)) states_[tensor].last_prefetch = kNoAction;
    for (TensorIndex tensor : op.writes) {
      if (!is_persistent(tensor)) continue;
      states_[tensor].last_prefetch = kNoAction;
      states_[tensor].has_copy = false;
    }
  }

  void act(int32_t i) {
    Migration action = actions_[i];
    if (action.action == Action::kRecompute) return replay(action.tensor);
    if (!is_persistent(action.tensor) || is_left_out_[i]) return;
    State& state = states_[action.tensor];
    if (action.action == Action::kDrop && !state.has_copy) action.action = Action::kOffload;
    if (action.action != Action::kOffload) action.tier = state.tier;
    const bool returns = action.action == Action::kPrefetch;
    state = {!returns, true, action.tier, returns ? i : kNoAction};
    if (is_recording_) actions_[i] = action;
  }

  // Reads what the op that made the tensor has read.
  void replay(TensorIndex tensor) {
    for (TensorIndex read : joined_.trace.ops[index_.uses[tensor].front().op].reads)
      if (is_persistent(read)) states_[read].last_prefetch = kNoAction;
  }

  // --- What moves when a step begins

  void open_step(size_t s) {
    for (size_t i = 0; i < states_.size(); ++i) {
      const auto tensor = static_cast<TensorIndex>(i);
      const Expectation& expected = expected_[s][i];
      if (expected.place == Place::kResident && states_[i].is_offloaded) enter(s, tensor);
      if (expected.place == Place::kOffloaded && !states_[i].is_offloaded)
        leave(s, tensor, expected.tier);
    }
    make_room(s);
  }

  void enter(size_t s, TensorIndex tensor) {
    const OpIndex begin = joined_.first_op[s];
    add_opening(s,
                {tensor, Action::kPrefetch, begin, next_use(tensor, begin), states_[tensor].tier});
    states_[tensor].is_offloaded = false;
  }

  void leave(size_t s, TensorIndex tensor, plan::Tier tier) {
    State& state = states_[tensor];
    state.is_offloaded = true;
    if (state.last_prefetch != kNoAction) {
      if (is_recording_) is_left_out_[state.last_prefetch] = true;
      state.last_prefetch = kNoAction;
      return;
    }
    const OpIndex begin = joined_.first_op[s];
    if (!state.has_copy) state.tier = tier;
    const Action action = std::exchange(state.has_copy, true) ? Action::kDrop : Action::kOffload;
    add_opening(s, {tensor, action, begin, begin, state.tier});
  }

  void add_opening(size_t s, const Migration& action) {
    if (is_recording_) openings_[s].push_back(action);
  }

  // Offloads the largest tensors that the step's trace does not have, until its plan has its room.
  void make_room(size_t s) {
    int64_t surplus_bytes = steps_[s].run.device_peak_bytes - budget_bytes_;
    std::vector<TensorIndex> others = resident_tensors_of_others(s);
    for (TensorIndex tensor : others) surplus_bytes += index_.size_bytes[tensor];
    std::ranges::stable_sort(others, std::ranges::greater(),
                             [this](TensorIndex tensor) { return index_.size_bytes[tensor]; });
    for (TensorIndex tensor : others) {
      if (surplus_bytes <= 0 || index_.size_bytes[tensor] < smallest_bytes_) return;
      leave(s, tensor, states_[tensor].tier);
      surplus_bytes -= index_.size_bytes[tensor];
    }
  }

  std::vector<TensorIndex> resident_tensors_of_others(size_t s) const {
    std::vector<bool> is_in_trace(joined_.trace.tensors.size());
    for (TensorIndex tensor : joined_.tensors[s]) is_in_trace[tensor] = true;
    std::vector<TensorIndex> others;
    for (size_t i = 0; i < states_.size(); ++i)
      if (!is_in_trace[i] && !states_[i].is_offloaded)
        others.push_back(static_cast<TensorIndex>(i));
    return others;
  }

  plan::Plan joined_plan() const {
    plan::Plan plan{joined_.trace.name, {}};
    for (size_t s = 0; s < steps_.size(); ++s) {
      plan.migrations.insert(plan.migrations.end(), openings_[s].begin(), openings_[s].end());
      for (size_t i = first_action_[s]; i < first_action_[s + 1]; ++i)
        if (!is_left_out_[i]) plan.migrations.push_back(actions_[i]);
    }
    return plan;
  }

  const std::span<const PlannedStep> steps_;
  const JoinedTrace& joined_;
  const trace::TraceIndex index_;
  const int64_t budget_bytes_;
  const int64_t smallest_bytes_;
  const bool has_drives_;
  std::vector<Migration> actions_;                  // of all steps, by the joined trace
  std::vector<size_t> first_action_;                // per step, and the number of actions
  std::vector<bool> is_left_out_;                   // per action
  trace::FlatLists<int32_t> by_op_;                 // per op: its actions
  std::vector<std::vector<Expectation>> expected_;  // per step, per persistent tensor
  std::vector<State> states_;                       // per persistent tensor
  std::vector<std::vector<Migration>> openings_;    // per step: what moves when it begins
  bool is_recording_ = false;
};

}  // namespace

StepSequence join_steps(std::span<const PlannedStep> steps, const hardware::Hardware& hardware,
                        const plan::Limits& limits) {
  std::vector<const trace::Trace*> traces;
  for (const PlannedStep& step : steps) traces.push_back(&step.trace);
  JoinedTrace joined = join_traces(traces);
  plan::Plan plan = PlanJoiner(steps, joined, hardware, limits).run();
  return {std::move(joined.trace), std::move(plan)};
}

}  // namespace teraio::simulate
