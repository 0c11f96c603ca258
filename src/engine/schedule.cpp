#include "engine/schedule.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

trace::OpIndex place_of(const plan::Migration& migration) {
  return migration.action == plan::Action::kRecompute ? migration.deadline_op
                                                      : migration.trigger_op;
}

trace::FlatLists<plan::Migration> by_place(const plan::Plan& plan, trace::OpIndex op_count) {
  return trace::FlatLists<plan::Migration>(static_cast<size_t>(op_count), [&](auto add) {
    for (const plan::Migration& migration : plan.migrations)
      add(static_cast<size_t>(std::min(place_of(migration), op_count - 1)), migration);
  });
}

}  // namespace

Schedule::Schedule(Profile profile, const plan::Plan& plan)
    : profile_(std::move(profile)),
      index_(profile_.trace),
      migrations_(by_place(plan, profile_.op_count())),
      is_replayed_(profile_.trace.ops.size()) {
  for (const plan::Migration& migration : plan.migrations)
    if (migration.action == plan::Action::kRecompute)
      is_replayed_[static_cast<size_t>(producer_of(migration.tensor))] = true;
}

// The first op that uses a tensor of the iteration has made it.
trace::OpIndex Schedule::producer_of(trace::TensorIndex tensor) const {
  return std::max<trace::OpIndex>(index_.first_op[static_cast<size_t>(tensor)], 0);
}

int64_t Schedule::replays_reading(trace::TensorIndex tensor,
                                  std::span<const plan::Migration> actions) const {
  return std::count_if(actions.begin(), actions.end(), [&](const plan::Migration& action) {
    if (action.action != plan::Action::kRecompute) return false;
    const trace::Op& producer = profile_.trace.ops[static_cast<size_t>(producer_of(action.tensor))];
    return std::find(producer.reads.begin(), producer.reads.end(), tensor) != producer.reads.end();
  });
}

}  // namespace teraio::engine
