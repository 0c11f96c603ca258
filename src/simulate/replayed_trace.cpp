#include "simulate/replayed_trace.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace teraio::simulate {
namespace {

using plan::Action;

constexpr trace::TensorIndex kDiscarded = -1;

bool uses(const trace::Op& op, trace::TensorIndex tensor) {
  return std::ranges::find(op.reads, tensor) != op.reads.end() ||
         std::ranges::find(op.writes, tensor) != op.writes.end();
}

// The op at which an action takes place.
trace::OpIndex place_of(const plan::Migration& action) {
  return action.action == Action::kRecompute ? action.deadline_op : action.trigger_op;
}

class Rewriter {
 public:
  Rewriter(const trace::Trace& trace, const trace::TraceIndex& index, const plan::Plan& plan)
      : original_(trace), index_(index), plan_(plan) {}

  std::optional<ReplayedTrace> run() {
    if (!order_actions()) return std::nullopt;
    prepare();
    for (size_t k = 0; k < original_.ops.size(); ++k) {
      const auto op = static_cast<trace::OpIndex>(k);
      for (int32_t i : actions_[k])
        if (!act(i)) return std::nullopt;
      if (!run_op(op)) return std::nullopt;
    }
    for (size_t s = 0; s < result_.steps.size(); ++s)
      if (result_.steps[s].temporary >= 0) hold_temporary(s);
    return std::move(result_);
  }

 private:
  bool order_actions() {
    const auto op_count = static_cast<trace::OpIndex>(index_.op_count());
    for (const plan::Migration& action : plan_.migrations) {
      const trace::OpIndex place = place_of(action);
      if (place < 0 || place >= op_count) return false;
      if (action.tensor < 0 || action.tensor >= index_.tensor_count()) return false;
    }
    actions_ = trace::FlatLists<int32_t>(index_.op_count(), [this](auto add) {
      for (size_t i = 0; i < plan_.migrations.size(); ++i)
        add(place_of(plan_.migrations[i]), static_cast<int32_t>(i));
    });
    return true;
  }

  void prepare() {
    trace::Trace& trace = result_.trace;
    trace.name = original_.name;
    trace.source = original_.source;
    trace.tokens_per_step = original_.tokens_per_step;
    trace.tensors = original_.tensors;
    trace.ops.reserve(original_.ops.size() + plan_.migrations.size());
    for (const trace::Tensor& tensor : original_.tensors) {
      life_.push_back(static_cast<trace::TensorIndex>(life_.size()));
      next_id_ = std::max(next_id_, tensor.id + 1);
    }
    result_.original = life_;
    temporaries_.resize(life_.size());
    result_.step_of_action.resize(plan_.migrations.size());
    result_.life_of_action.resize(plan_.migrations.size());
  }

  bool act(int32_t i) {
    const plan::Migration& action = plan_.migrations[i];
    result_.step_of_action[i] = static_cast<trace::OpIndex>(result_.steps.size());
    result_.life_of_action[i] = life_[action.tensor];
    if (action.action == Action::kRecompute) return recompute(action);
    if (life_[action.tensor] == kDiscarded) return false;
    return action.action != Action::kDiscard || discard(action);
  }

  bool discard(const plan::Migration& action) {
    const trace::TensorIndex tensor = action.tensor;
    if (index_.persistent[tensor] || index_.uses[tensor].empty() ||
        !index_.exists_before(tensor, action.trigger_op))
      return false;
    result_.trace.ops.back().frees.push_back(life_[tensor]);
    life_[tensor] = kDiscarded;
    return true;
  }

  bool recompute(const plan::Migration& action) {
    const trace::OpIndex before = action.deadline_op;
    const bool is_freed = is_freed_before(action.tensor, before);
    const bool is_present =
        is_freed ? has_temporary(action.tensor, before) : life_[action.tensor] != kDiscarded;
    if (action.trigger_op > before || is_present) return false;
    const std::optional<trace::OpIndex> producer = only_writer(action.tensor, before);
    if (!producer || !may_run_again(*producer, before)) return false;
    trace::Op op = original_.ops[*producer];
    op.frees.clear();
    for (trace::TensorIndex& tensor : op.reads) tensor = present_life(tensor, before);
    ReplayStep step{*producer, true, before, {}};
    for (trace::TensorIndex tensor : std::exchange(op.writes, {}))
      if (tensor == action.tensor && is_freed)
        make_temporary(tensor, op, step);
      else if (!restore(tensor, op, step))
        return false;
    result_.trace.ops.push_back(std::move(op));
    result_.steps.push_back(std::move(step));
    return true;
  }

  bool is_freed_before(trace::TensorIndex tensor, trace::OpIndex op) const {
    return !index_.persistent[tensor] && !index_.uses[tensor].empty() &&
           index_.last_op[tensor] < op;
  }

  bool has_temporary(trace::TensorIndex tensor, trace::OpIndex op) const {
    return temporaries_[tensor].before_op == op;
  }

  // The life that a replay before `op` reads.
  trace::TensorIndex present_life(trace::TensorIndex tensor, trace::OpIndex op) const {
    return is_freed_before(tensor, op) ? temporaries_[tensor].life : life_[tensor];
  }

  trace::TensorIndex new_life(trace::TensorIndex tensor, trace::Op& replay) {
    const auto life = static_cast<trace::TensorIndex>(result_.trace.tensors.size());
    result_.trace.tensors.push_back(original_.tensors[tensor]);
    result_.trace.tensors.back().id = next_id_++;
    result_.original.push_back(tensor);
    replay.writes.push_back(life);
    return life;
  }

  void make_temporary(trace::TensorIndex tensor, trace::Op& replay, ReplayStep& step) {
    step.temporary = new_life(tensor, replay);
    temporaries_[tensor] = {step.before_op, step.temporary};
  }

  // Adds the next life of an output, or counts its bytes as workspace when it is not discarded.
  bool restore(trace::TensorIndex tensor, trace::Op& replay, ReplayStep& step) {
    const bool wanted = life_[tensor] == kDiscarded && index_.exists_before(tensor, step.before_op);
    if (!wanted) {
      replay.workspace_bytes += index_.size_bytes[tensor];
      return true;
    }
    if (!only_writer(tensor, step.before_op)) return false;
    life_[tensor] = new_life(tensor, replay);
    step.restores.push_back(tensor);
    return true;
  }

  // Returns the op that made the tensor, when no other op has used it before or written it since.
  std::optional<trace::OpIndex> only_writer(trace::TensorIndex tensor,
                                            trace::OpIndex before) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    if (index_.persistent[tensor] || uses.empty() || !uses.front().writes) return std::nullopt;
    if (written_between(tensor, uses.front().op, before)) return std::nullopt;
    return uses.front().op;
  }

  // Whether an op in (after, before) writes the tensor.
  bool written_between(trace::TensorIndex tensor, trace::OpIndex after,
                       trace::OpIndex before) const {
    return std::ranges::any_of(index_.uses[tensor], [&](const trace::TensorUse& use) {
      return use.writes && use.op > after && use.op < before;
    });
  }

  // Whether the op has all its inputs as they were, and changes no tensor that it did not make.
  bool may_run_again(trace::OpIndex op, trace::OpIndex before) const {
    const trace::Op& producer = original_.ops[op];
    if (!producer.replayable) return false;
    for (trace::TensorIndex tensor : producer.reads)
      if (!is_present(tensor, before) || written_between(tensor, op, before)) return false;
    return std::ranges::none_of(producer.writes, [&](trace::TensorIndex tensor) {
      return index_.persistent[tensor] || index_.first_op[tensor] < op;
    });
  }

  bool is_present(trace::TensorIndex tensor, trace::OpIndex op) const {
    if (is_freed_before(tensor, op)) return has_temporary(tensor, op);
    return index_.exists_before(tensor, op) && life_[tensor] != kDiscarded;
  }

  bool run_op(trace::OpIndex k) {
    trace::Op op = original_.ops[k];
    for (std::vector<trace::TensorIndex>* tensors : {&op.reads, &op.writes})
      for (trace::TensorIndex& tensor : *tensors)
        if ((tensor = life_[tensor]) == kDiscarded) return false;
    for (trace::TensorIndex& tensor : op.frees) tensor = life_[tensor];
    std::erase(op.frees, kDiscarded);
    result_.step_of_op.push_back(static_cast<trace::OpIndex>(result_.steps.size()));
    result_.trace.ops.push_back(std::move(op));
    result_.steps.push_back({k, false, k, {}});
    return true;
  }

  // The replays between the one that makes the temporary and the last one that reads it read it,
  // too: it has no idle period, because no plan can name it in order to move it.
  void hold_temporary(size_t made_at) {
    const trace::TensorIndex temporary = result_.steps[made_at].temporary;
    size_t last = made_at;
    for (size_t s = made_at + 1; result_.steps[s].is_replay; ++s)
      if (uses(result_.trace.ops[s], temporary)) last = s;
    for (size_t s = made_at + 1; s < last; ++s)
      if (!uses(result_.trace.ops[s], temporary)) result_.trace.ops[s].reads.push_back(temporary);
  }

  const trace::Trace& original_;
  const trace::TraceIndex& index_;
  const plan::Plan& plan_;
  ReplayedTrace result_;
  trace::FlatLists<int32_t> actions_;     // per op: positions in the plan, in its order
  std::vector<trace::TensorIndex> life_;  // per tensor: its present life in the new trace
  struct Temporary {
    trace::OpIndex before_op = -1;
    trace::TensorIndex life = 0;
  };
  std::vector<Temporary> temporaries_;  // per tensor: the newest one
  int64_t next_id_ = 0;
};

// The step that needs the effect of an action: the first of the deadline's steps that uses the
// tensor, else the op itself.
trace::OpIndex deadline_step(const ReplayedTrace& replayed, const plan::Migration& action,
                             trace::OpIndex trigger_step, trace::TensorIndex life) {
  const trace::OpIndex last = replayed.step_of_op[action.deadline_op];
  const trace::OpIndex first =
      action.deadline_op == 0 ? 0 : replayed.step_of_op[action.deadline_op - 1] + 1;
  const bool same_op = action.deadline_op == action.trigger_op;
  for (trace::OpIndex s = same_op ? std::max(first, trigger_step) : first; s < last; ++s)
    if (uses(replayed.trace.ops[s], life)) return s;
  return last;
}

}  // namespace

std::optional<ReplayedTrace> replay_trace(const trace::Trace& trace, const trace::TraceIndex& index,
                                          const plan::Plan& plan) {
  return Rewriter(trace, index, plan).run();
}

plan::Plan moves_on(const ReplayedTrace& replayed, const plan::Plan& plan) {
  plan::Plan moves{plan.trace, {}};
  for (size_t i = 0; i < plan.migrations.size(); ++i) {
    plan::Migration move = plan.migrations[i];
    if (!uses_tier(move.action)) continue;
    const bool has_deadline =
        move.deadline_op >= 0 && move.deadline_op < replayed.step_of_op.size();
    move.deadline_op = has_deadline ? deadline_step(replayed, move, replayed.step_of_action[i],
                                                    replayed.life_of_action[i])
                                    : -1;
    move.tensor = replayed.life_of_action[i];
    move.trigger_op = replayed.step_of_action[i];
    moves.migrations.push_back(move);
  }
  return moves;
}

plan::Plan with_moves(const ReplayedTrace& replayed, const plan::Plan& plan,
                      const plan::Plan& moves) {
  using Entry = std::tuple<trace::OpIndex, bool, plan::Migration>;  // step, whether it is a replay
  std::vector<Entry> entries;
  for (size_t i = 0; i < plan.migrations.size(); ++i)
    if (const plan::Migration& action = plan.migrations[i]; !uses_tier(action.action))
      entries.push_back({replayed.step_of_action[i], action.action == Action::kRecompute, action});
  for (plan::Migration move : moves.migrations) {
    const trace::OpIndex step = move.trigger_op;
    move.tensor = replayed.original[move.tensor];
    move.trigger_op = replayed.steps[step].before_op;
    move.deadline_op = replayed.steps[move.deadline_op].before_op;
    entries.push_back({step, false, move});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  plan::Plan joined{plan.trace, {}};
  for (const auto& [step, is_replay, action] : entries) joined.migrations.push_back(action);
  return joined;
}

}  // namespace teraio::simulate
