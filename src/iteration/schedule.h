// Schedule: a profile and its plan, indexed for the queries that the engine makes before every op.
//
// A value. Reading is safe from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "iteration/profile.h"
#include "plan/plan.h"
#include "trace/flat_lists.h"
#include "trace/trace_index.h"

namespace teraio::iteration {

class Schedule {
 public:
  Schedule() = default;
  explicit Schedule(Profile profile);  // no plan
  Schedule(Profile profile, plan::Plan plan);

  const Profile& profile() const { return profile_; }
  // The uses and lifetimes of the profile's tensors.
  const trace::TraceIndex& index() const { return index_; }
  // The tensors of op `op` in the order in which its arguments and results name them.
  std::span<const trace::TensorIndex> touches(trace::OpIndex op) const {
    return profile_.touches[static_cast<size_t>(op)];
  }
  // The tensors that it makes besides, in their order.
  std::span<const trace::TensorIndex> births(trace::OpIndex op) const {
    const auto found = profile_.births.find(op);
    return found == profile_.births.end() ? std::span<const trace::TensorIndex>() : found->second;
  }
  bool is_empty() const { return profile_.trace.ops.empty(); }
  // The memory of this object, roughly.
  int64_t memory_bytes() const { return memory_bytes_; }
  bool is_planned() const { return plan_.has_value(); }
  const std::optional<plan::Plan>& plan() const { return plan_; }

  // Returns the actions to issue before op `op`, in the plan's order: a recompute before its
  // deadline_op, any other before its trigger_op. The last op also has those that the plan triggers
  // after it.
  std::span<const plan::Migration> issued_at(trace::OpIndex op) const { return migrations_[op]; }

  // Whether the plan replays op `op`, so that its results need a recipe.
  bool is_replayed(trace::OpIndex op) const { return is_replayed_[static_cast<size_t>(op)]; }
  // When the tensor next leaves the device from op `op` on: by an action of the plan or by its
  // death. Counted on into the next iteration; nothing: it never does.
  std::optional<trace::OpIndex> departure_after(trace::TensorIndex tensor, trace::OpIndex op) const;
  // The number of replays among `actions`, which are actions of the plan, that read the tensor.
  int64_t replays_reading(trace::TensorIndex tensor,
                          std::span<const plan::Migration> actions) const;

 private:
  Profile profile_;
  std::optional<plan::Plan> plan_;
  trace::TraceIndex index_;
  int64_t count_memory_bytes() const;
  trace::OpIndex producer_of(trace::TensorIndex tensor) const;

  trace::FlatLists<plan::Migration> migrations_;  // per op
  trace::FlatLists<trace::OpIndex> departures_;   // per tensor, those of the plan by op
  std::vector<bool> is_replayed_;                 // per op
  int64_t memory_bytes_ = 0;
};

}  // namespace teraio::iteration
