// ProfileBinding: which live tensor is which tensor of the profile that is followed.
//
// Persistent tensors are bound by their ids when the profile is adopted. All others are bound by
// their places in the ops that use them, op by op, because every iteration creates them anew. A
// live tensor is bound to one tensor of the profile at most (PlannedState::profile_index), and the
// other way round.
//
// Threads: called under the engine's lock. Ownership: a live tensor has to be unbound before it
// ends. No call fails.
#pragma once

#include <span>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/use.h"
#include "iteration/schedule.h"
#include "trace/trace.h"

namespace teraio::engine {

class ProfileBinding {
 public:
  // Adopts a profile's tensors: unbinds all, and binds the persistent ones that are among `live`.
  void follow(std::span<const trace::Tensor> tensors, std::span<LiveTensor* const> live);

  // Adopts `next` after the first `op_count` ops of `schedule`, which are the same in both: what
  // was bound by them is bound by its places in them. Persistent tensors as for follow().
  void follow_from(const iteration::Schedule& schedule, const iteration::Schedule& next,
                   trace::OpIndex op_count, std::span<LiveTensor* const> live);

  // An op of the profile, whose tensors are `touches`, runs with `uses`. Where an op of the program
  // names more tensors than that of the profile, the rest stay as they are.
  void bind(std::span<const trace::TensorIndex> touches, std::span<const Use> uses);

  void unbind(LiveTensor& tensor);

  // Returns the live tensor that is bound to a tensor of the profile; null: none is.
  LiveTensor* find(trace::TensorIndex index) const { return bound_[static_cast<size_t>(index)]; }

 private:
  void bind_one(trace::TensorIndex index, LiveTensor& tensor);

  std::vector<LiveTensor*> bound_;  // per tensor of the profile
};

}  // namespace teraio::engine
