// Schedule: a profile and its plan, indexed for the queries that the engine makes before every op.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/profile.h"
#include "plan/plan.h"

namespace teraio::engine {

class Schedule {
 public:
  Schedule() = default;
  Schedule(Profile profile, const plan::Plan& plan);

  const Profile& profile() const { return profile_; }
  bool is_empty() const { return profile_.trace.ops.empty(); }

  // Returns the migrations to issue before op `op`, in the plan's order.
  std::span<const plan::Migration> issued_at(trace::OpIndex op) const;

  // Returns the number of ops from `op` until `tensor` is next needed, across the end of the
  // iteration when it is persistent. Returns the number of ops in the iteration when the tensor is
  // not needed again, which exceeds every other distance.
  int64_t distance_to_use(trace::TensorIndex tensor, trace::OpIndex op) const;

  // Returns the bytes of the tensors that op `op` creates, plus its workspace.
  int64_t newborn_bytes(trace::OpIndex op) const { return newborn_bytes_[static_cast<size_t>(op)]; }

 private:
  void index_uses();
  void index_migrations();

  Profile profile_;
  std::vector<plan::Migration> migrations_;  // by trigger
  std::vector<size_t> migrations_begin_;     // per op, and one more
  std::vector<trace::OpIndex> uses_;         // by tensor, ascending
  std::vector<size_t> uses_begin_;           // per tensor, and one more
  std::vector<int64_t> newborn_bytes_;
};

}  // namespace teraio::engine
