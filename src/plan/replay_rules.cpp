#include "plan/replay_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace teraio::plan {
namespace {

constexpr int64_t kNever = -1;

// The op at which an action takes place.
trace::OpIndex place_of(const Migration& migration) {
  return migration.action == Action::kRecompute ? migration.deadline_op : migration.trigger_op;
}

class ReplayRules {
 public:
  ReplayRules(const Plan& plan, const trace::Trace& trace, Steps& steps)
      : plan_(plan),
        trace_(trace),
        steps_(steps),
        writers_(trace.tensors.size()),
        first_use_(trace.tensors.size(), kNever),
        last_use_(trace.tensors.size(), kNever),
        is_discarded_(trace.tensors.size()),
        unused_since_(trace.tensors.size(), kNever),
        temporary_(trace.tensors.size(), kNever) {
    for (size_t k = 0; k < trace.ops.size(); ++k) collect(static_cast<int64_t>(k));
  }

  Status run() {
    std::vector<std::vector<size_t>> actions(steps_.steps.size() + 1);
    for (size_t i = 0; i < plan_.migrations.size(); ++i)
      actions[steps_.step_of_action[i]].push_back(i);
    for (size_t s = 0; s < steps_.steps.size(); ++s) {
      for (size_t i : actions[s])
        if (plan_.migrations[i].action == Action::kDiscard) TERAIO_RETURN_IF_ERROR(discard(i));
      now_ = static_cast<int64_t>(s);
      TERAIO_RETURN_IF_ERROR(run_step(steps_.steps[s]));
    }
    for (int64_t recompute : unused_since_)
      if (recompute != kNever) return broken("recompute-without-use", recompute);
    return Status();
  }

 private:
  void collect(int64_t k) {
    const trace::Op& op = trace_.ops[k];
    for (trace::TensorIndex tensor : op.reads) use(tensor, k);
    for (trace::TensorIndex tensor : op.writes) {
      use(tensor, k);
      writers_[tensor].push_back(k);
    }
    for (trace::TensorIndex tensor : op.frees) last_use_[tensor] = k;
  }

  void use(trace::TensorIndex tensor, int64_t k) {
    if (first_use_[tensor] == kNever) first_use_[tensor] = k;
    last_use_[tensor] = std::max(last_use_[tensor], k);
  }

  Status broken(std::string_view rule, size_t index) const {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}", rule, describe(plan_, trace_, index)));
  }

  Status broken(std::string_view rule, size_t index, trace::TensorIndex tensor) const {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}: tensor {}", rule, describe(plan_, trace_, index),
                              trace_.tensors[tensor].id));
  }

  bool existed_before(trace::TensorIndex tensor, int64_t op) const {
    return trace_.tensors[tensor].persistent || first_use_[tensor] < op;
  }

  // Whether the tensor exists right before `op`.
  bool is_alive(trace::TensorIndex tensor, int64_t op) const {
    return existed_before(tensor, op) &&
           (trace_.tensors[tensor].persistent || op <= last_use_[tensor]);
  }

  // The number of ops before `op` that wrote the tensor.
  int64_t writes_before(trace::TensorIndex tensor, int64_t op) const {
    const std::vector<int64_t>& writers = writers_[tensor];
    return std::lower_bound(writers.begin(), writers.end(), op) - writers.begin();
  }

  Status discard(size_t index) {
    const Migration& migration = plan_.migrations[index];
    if (trace_.tensors[migration.tensor].persistent) return broken("discard-persistent", index);
    if (!is_alive(migration.tensor, migration.trigger_op)) return broken("tensor not alive", index);
    if (is_discarded_[migration.tensor]) return broken("already offloaded", index);
    if (unused_since_[migration.tensor] != kNever)
      return broken("recompute-without-use", unused_since_[migration.tensor]);
    is_discarded_[migration.tensor] = true;
    return Status();
  }

  Status run_step(Step& step) {
    if (step.is_replay) {
      TERAIO_RETURN_IF_ERROR(replay(step));
    }
    const trace::Op& op = trace_.ops[step.op];
    for (trace::TensorIndex tensor : op.reads) unused_since_[tensor] = kNever;
    if (!step.is_replay)
      for (trace::TensorIndex tensor : op.writes) unused_since_[tensor] = kNever;
    if (step.is_replay)
      unused_since_[plan_.migrations[step.recompute].tensor] = static_cast<int64_t>(step.recompute);
    return Status();
  }

  Status replay(Step& step) {
    const size_t index = step.recompute;
    const Migration& migration = plan_.migrations[index];
    if (migration.trigger_op > migration.deadline_op) return broken("trigger out of range", index);
    const bool is_freed = is_freed_before(migration.tensor, step.before_op);
    if (is_freed ? has_temporary(migration.tensor, step.before_op)
                 : !is_discarded_[migration.tensor])
      return broken("recompute-of-resident", index);
    TERAIO_RETURN_IF_ERROR(find_producer(step, migration.tensor));
    if (!trace_.ops[step.op].replayable) return broken("not-replayable", index);
    for (trace::TensorIndex tensor : trace_.ops[step.op].reads) {
      TERAIO_RETURN_IF_ERROR(check_input(step, tensor));
    }
    step.workspace_bytes = trace_.ops[step.op].workspace_bytes;
    for (trace::TensorIndex tensor : trace_.ops[step.op].writes) {
      TERAIO_RETURN_IF_ERROR(restore(step, tensor));
    }
    return Status();
  }

  bool is_freed_before(trace::TensorIndex tensor, int64_t op) const {
    return !trace_.tensors[tensor].persistent && first_use_[tensor] != kNever &&
           last_use_[tensor] < op;
  }

  // Whether a replay before this op has made the tensor, which the program has freed.
  bool has_temporary(trace::TensorIndex tensor, trace::OpIndex op) const {
    return temporary_[tensor] != kNever &&
           steps_.steps[steps_.temporaries[temporary_[tensor]].first_step].before_op == op;
  }

  Status find_producer(Step& step, trace::TensorIndex tensor) const {
    const int64_t writes = writes_before(tensor, step.before_op);
    if (writes == 0) return broken("no-producer", step.recompute);
    const int64_t producer = writers_[tensor].front();
    if (first_use_[tensor] < producer) return broken("no-producer", step.recompute);
    if (writes > 1) return broken("several-writers", step.recompute);
    step.op = static_cast<trace::OpIndex>(producer);
    return Status();
  }

  Status check_input(Step& step, trace::TensorIndex tensor) {
    if (is_freed_before(tensor, step.before_op) && has_temporary(tensor, step.before_op)) {
      steps_.temporaries[temporary_[tensor]].last_step = now_;
      step.temporaries.push_back(tensor);
      return Status();
    }
    if (!is_alive(tensor, step.before_op)) return broken("input-freed", step.recompute, tensor);
    if (is_discarded_[tensor]) return broken("input-discarded", step.recompute, tensor);
    if (writes_before(tensor, step.before_op) != writes_before(tensor, step.op))
      return broken("input-overwritten", step.recompute, tensor);
    return Status();
  }

  // Brings an output of the replay back if it is discarded; else its bytes are scratch.
  Status restore(Step& step, trace::TensorIndex tensor) {
    if (existed_before(tensor, step.op)) return broken("changes-another", step.recompute, tensor);
    if (tensor == plan_.migrations[step.recompute].tensor &&
        is_freed_before(tensor, step.before_op)) {
      temporary_[tensor] = static_cast<int64_t>(steps_.temporaries.size());
      steps_.temporaries.push_back({tensor, now_, now_});
      return Status();
    }
    if (!is_discarded_[tensor] || !is_alive(tensor, step.before_op)) {
      step.workspace_bytes += trace_.tensors[tensor].size_bytes;
      return Status();
    }
    if (writes_before(tensor, step.before_op) > 1)
      return broken("other-bytes", step.recompute, tensor);
    is_discarded_[tensor] = false;
    step.restores.push_back(tensor);
    return Status();
  }

  const Plan& plan_;
  const trace::Trace& trace_;
  Steps& steps_;
  std::vector<std::vector<int64_t>> writers_;  // per tensor: the ops that write it, in order
  std::vector<int64_t> first_use_;             // per tensor
  std::vector<int64_t> last_use_;              // per tensor: or the op that frees it
  std::vector<uint8_t> is_discarded_;          // per tensor
  std::vector<int64_t> unused_since_;          // per tensor: the recompute that nothing used yet
  std::vector<int64_t> temporary_;             // per tensor: its newest one in steps_.temporaries
  int64_t now_ = 0;                            // the step that runs
};

}  // namespace

Steps steps_of(const Plan& plan, const trace::Trace& trace) {
  std::vector<std::vector<size_t>> actions(trace.ops.size());
  for (size_t i = 0; i < plan.migrations.size(); ++i)
    actions[place_of(plan.migrations[i])].push_back(i);
  Steps steps;
  steps.step_of_action.resize(plan.migrations.size());
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const auto op = static_cast<trace::OpIndex>(k);
    for (size_t i : actions[k]) {
      steps.step_of_action[i] = steps.count();
      if (plan.migrations[i].action == Action::kRecompute)
        steps.steps.push_back({op, op, true, i, {}, {}, 0});
    }
    steps.step_of_op.push_back(steps.count());
    steps.steps.push_back({op, op, false, 0, {}, {}, trace.ops[k].workspace_bytes});
  }
  return steps;
}

Status check_replays(const Plan& plan, const trace::Trace& trace, Steps& steps) {
  return ReplayRules(plan, trace, steps).run();
}

}  // namespace teraio::plan
