#include "iteration/schedule.h"

#include <algorithm>
#include <utility>

namespace teraio::iteration {
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

trace::FlatLists<trace::OpIndex> departures(const plan::Plan& plan, size_t tensor_count) {
  std::vector<const plan::Migration*> leaving;
  for (const plan::Migration& migration : plan.migrations)
    if (plan::leaves_device(migration.action)) leaving.push_back(&migration);
  std::ranges::stable_sort(leaving, {}, &plan::Migration::trigger_op);
  return trace::FlatLists<trace::OpIndex>(tensor_count, [&](auto add) {
    for (const plan::Migration* migration : leaving)
      add(static_cast<size_t>(migration->tensor), migration->trigger_op);
  });
}

}  // namespace

Schedule::Schedule(Profile profile, plan::Plan plan)
    : profile_(std::move(profile)),
      index_(profile_.trace),
      migrations_(by_place(plan, profile_.op_count())),
      departures_(departures(plan, index_.tensor_count())),
      is_replayed_(profile_.trace.ops.size()) {
  for (const plan::Migration& migration : plan.migrations)
    if (migration.action == plan::Action::kRecompute)
      is_replayed_[static_cast<size_t>(producer_of(migration.tensor))] = true;
  plan_ = std::move(plan);
  memory_bytes_ = count_memory_bytes();
}

Schedule::Schedule(Profile profile) : Schedule(std::move(profile), plan::Plan()) { plan_.reset(); }

int64_t Schedule::count_memory_bytes() const {
  const auto bytes_of = [](const auto& values) {
    const size_t bytes = values.capacity() * sizeof(*values.data());
    return bytes == 0 ? 0 : std::max<size_t>(32, (bytes + 23) / 16 * 16);  // of glibc's heap
  };
  const auto bytes_of_name = [&](const std::string& name) {
    return name.capacity() > std::string().capacity() ? bytes_of(name) : 0;
  };
  size_t bytes = bytes_of(profile_.trace.tensors) + bytes_of(profile_.trace.ops) +
                 bytes_of(profile_.signatures) + bytes_of(profile_.origins) +
                 bytes_of(profile_.touches);
  for (const trace::Op& op : profile_.trace.ops)
    bytes += bytes_of_name(op.name) + bytes_of(op.reads) + bytes_of(op.writes) + bytes_of(op.frees);
  for (const auto& touches : profile_.touches) bytes += bytes_of(touches);
  for (const auto& [op, births] : profile_.births) bytes += 64 + bytes_of(births);
  for (const trace::Tensor& tensor : profile_.trace.tensors) bytes += bytes_of_name(tensor.name);
  const size_t per_op_and_tensor = 64;  // of the index
  bytes += per_op_and_tensor * (index_.op_count() + index_.tensor_count());
  if (plan_) bytes += 2 * bytes_of(plan_->migrations);
  return static_cast<int64_t>(bytes);
}

// The first op that uses a tensor of the iteration has made it.
trace::OpIndex Schedule::producer_of(trace::TensorIndex tensor) const {
  return std::max<trace::OpIndex>(index_.first_op[static_cast<size_t>(tensor)], 0);
}

std::optional<trace::OpIndex> Schedule::departure_after(trace::TensorIndex tensor,
                                                        trace::OpIndex op) const {
  const auto index = static_cast<size_t>(tensor);
  const std::span<const trace::OpIndex> departures = departures_[index];
  const auto next = std::ranges::upper_bound(departures, op);
  if (next != departures.end()) return *next;
  if (!index_.persistent[index]) return index_.last_op[index] + 1;
  if (departures.empty()) return std::nullopt;
  return departures.front() + profile_.op_count();
}

int64_t Schedule::replays_reading(trace::TensorIndex tensor,
                                  std::span<const plan::Migration> actions) const {
  return std::count_if(actions.begin(), actions.end(), [&](const plan::Migration& action) {
    if (action.action != plan::Action::kRecompute) return false;
    const trace::Op& producer = profile_.trace.ops[static_cast<size_t>(producer_of(action.tensor))];
    return std::find(producer.reads.begin(), producer.reads.end(), tensor) != producer.reads.end();
  });
}

}  // namespace teraio::iteration
