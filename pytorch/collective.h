// Collectives: a communication library works on an op's tensors after the op has returned, on
// threads or streams of its own.
//
// The operands stay pinned until the collective's Work is over. A Work is over when nothing else
// holds a reference to it: the library's threads have dropped it, and the program has waited for
// it, as it must before it uses the results. (gloo's reduce_scatter starts its last copy only in
// that wait, and its Work never reports completion.) On a GPU, libraries other than gloo keep no
// Work for what they have enqueued, so there the Work must also be complete.
#pragma once

#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "active_session.h"
#include "op_info.h"

namespace teraio::pytorch {

// The tensors behind the arguments of a c10d op that is about to run.
class CollectiveOperands {
 public:
  // Restores and pins the tensors. Raises when one cannot be restored.
  CollectiveOperands(ActiveSession& session, const OpInfo& info, const torch::jit::Stack& stack);
  // Unpins the tensors unless keep_until_over() was called: without that call, the op has failed.
  ~CollectiveOperands();
  CollectiveOperands(const CollectiveOperands&) = delete;
  CollectiveOperands& operator=(const CollectiveOperands&) = delete;

  // Keeps the tensors pinned until the Works on `stack`, the op's results, are over. Without a
  // Work, the op is complete or ordered with the stream that it was called on, and the tensors are
  // unpinned. In a coalesced group nothing reports the end, so the tensors stay pinned permanently.
  void keep_until_over(const torch::jit::Stack& stack);

 private:
  void pin_permanently();

  ActiveSession& session_;
  const OpInfo& info_;
  std::vector<engine::LiveTensor*> held_;
  bool has_to_complete_ = false;
};

// Tells whether the calling thread coalesces collectives into a group. They then start only at the
// end of the group, and their Works report nothing useful (NCCL's report completion at once).
void set_coalescing(bool is_on);

inline std::atomic<bool> has_collectives_under_way = false;

// Unpins the operands of all collectives that are over.
void let_go_of_ended_collectives();

// Returns the bytes of the operands of collectives that are under way.
int64_t collective_bytes();

// Forgets all collectives that are under way. Called when the session ends, after which no tensor
// moves.
void forget_collectives();

}  // namespace teraio::pytorch
