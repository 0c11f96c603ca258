// What the tensors of an op need beyond the op itself: an order of streams, and pins that last
// longer than it.
//
// Threads: the one that runs the op, without the runtime's lock.
#pragma once

#include <span>
#include <vector>

#include "engine/use.h"
#include "op_info.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// Pins a tensor until this thread's outermost op ends, as if a nested op wrote it: the op's kernel
// has its address. Returns false and has no effect when the thread runs no op. Raises as
// throw_status() does when the tensor cannot be restored. The caller does not hold the GIL.
bool pin_until_op_ends(ActiveSession& session, engine::LiveTensor* tensor);

// Makes the calling thread's stream wait for what the session has brought back of these tensors,
// unless it is the session's stream, which waits anyway. Raises as throw_status() does when it
// cannot. The caller has pinned them, and holds a StorageReferenceGuard.
void order_this_stream(const ActiveSession& session, const OpInfo& info,
                       std::span<const engine::Use> uses);

// Pins the tensors until they die, because something may use their addresses at any later time: a
// graph that captured the op, or a result of the op that keeps its arguments. Raises as
// throw_status() does when a tensor cannot be restored; those before it stay pinned. The caller
// holds a StorageReferenceGuard.
void pin_all_permanently(runtime::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info);

}  // namespace teraio::pytorch
