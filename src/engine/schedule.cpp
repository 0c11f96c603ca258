#include "engine/schedule.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

trace::FlatLists<plan::Migration> by_trigger(const plan::Plan& plan, trace::OpIndex op_count) {
  return trace::FlatLists<plan::Migration>(static_cast<size_t>(op_count), [&](auto add) {
    for (const plan::Migration& migration : plan.migrations)
      add(static_cast<size_t>(std::min(migration.trigger_op, op_count - 1)), migration);
  });
}

}  // namespace

Schedule::Schedule(Profile profile, const plan::Plan& plan)
    : profile_(std::move(profile)),
      index_(profile_.trace),
      migrations_(by_trigger(plan, profile_.op_count())) {}

}  // namespace teraio::engine
