// Collectives: a communication library works on an op's tensors after the op has returned, on
// threads or streams of its own.
//
// The operands stay pinned until the collective's Work is over. A Work is over when this module
// holds the last reference to it. By then the library's threads and the program have released their
// references, and the program has to wait for the Work before it uses the results. (Completion
// alone does not suffice: gloo's reduce_scatter starts its last copy only in that wait, and its
// Work never reports completion.) On a GPU, libraries other than gloo keep no reference to the Work
// of what they have enqueued, so there the Work must also report completion.
//
// Threads: any thread may call the functions. The caller must not hold the runtime's lock, because
// dropping a Work may free storages. The GIL may be held or not.
#pragma once

#include <ATen/core/stack.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "op_info.h"
#include "storages/active_session.h"

namespace c10d {
class Work;
}

namespace teraio::pytorch {

// The tensors behind the arguments of a c10d op that is about to run. One thread creates and
// destroys the object, which keeps references to `session` and `info`.
class CollectiveOperands {
 public:
  // Restores and pins the tensors that the session manages, and marks them as written, because the
  // schemas of collectives do not tell inputs from outputs. Storages are not adopted. When a tensor
  // cannot be restored, pins none and raises as throw_status() does.
  CollectiveOperands(ActiveSession& session, const OpInfo& info, const torch::jit::Stack& stack);
  // Unpins the tensors, unless keep_until_over() has handed them to a collective under way. When
  // the op throws, keep_until_over() is not called, and the tensors are unpinned here.
  ~CollectiveOperands();
  CollectiveOperands(const CollectiveOperands&) = delete;
  CollectiveOperands& operator=(const CollectiveOperands&) = delete;

  // Keeps the tensors pinned until the Work among the op's results on `stack` is over. Without a
  // Work, the op is complete or ordered with the stream that it was called on, and the destructor
  // unpins the tensors. In a coalesced group the tensors stay pinned until the group's Work is
  // over.
  void keep_until_over(const torch::jit::Stack& stack);

 private:
  ActiveSession& session_;
  const OpInfo& info_;
  std::vector<engine::LiveTensor*> held_;
  bool has_to_complete_ = false;
};

// The calling thread coalesces collectives into a group, until end_coalescing(). They start only at
// the end of the group, and their own Works do not tell when they are over (NCCL's report
// completion at once).
void begin_coalescing();

// Keeps the operands of the thread's group pinned until `work` is over, the Work of the group.
// Without one, the group is ordered with the stream that it was called on, and the tensors are
// unpinned.
void end_coalescing(c10::intrusive_ptr<c10d::Work> work);

// Ends the thread's group, which has failed: nothing tells what the library still does, so that the
// operands are pinned permanently.
void fail_coalescing();

// False when release_ended_collectives() has nothing to do. Each op reads it to skip that call.
inline std::atomic<bool> has_collectives_under_way = false;

// Drops the Works that are over and unpins their operands.
void release_ended_collectives();

// Waits until a collective is over, and unpins its operands, for a call that memory is too short
// for. Returns false when none is under way, or none was over within 10 s: the program may hold its
// Work, and another process may need what this one does next. Releases the GIL meanwhile.
bool wait_for_a_collective();

// Returns the bytes of the operands of collectives under way. A tensor that several collectives
// use counts once.
int64_t collective_bytes();

// Drops the Works of all collectives and unpins their operands, whether the collectives are over or
// not. The session calls it at its end, when the hooks are off and no op offloads tensors any more.
void forget_collectives();

}  // namespace teraio::pytorch
