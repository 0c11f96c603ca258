// The op observer: a boxed fallback on a dispatch key above autograd that sees every operator
// before and after it runs, on an unmodified PyTorch.
//
// Before an op, the observer tells the runtime which storages the op reads and writes, and the
// runtime restores and pins them. After the op, the observer tells it which storages the op
// created. Nested ops count as part of the outermost one. Only enabled threads are observed: those
// of Python and of autograd. Others are not, for example the workers of gloo, which use raw
// pointers without operators.
#pragma once

#include <string_view>
#include <vector>

#include "active_session.h"
#include "base/status.h"
#include "op_info.h"

namespace teraio::pytorch {

// Turns the observer on or off for the calling thread. Autograd's threads inherit it.
void observe_this_thread(bool is_on);
bool is_this_thread_observed();

// Makes the calling thread's ops part of `info` until leave_op(). Returns false and has no effect
// when they are already part of another op.
bool enter_op(const OpInfo& info);
void leave_op(ActiveSession& session);

// Pins the tensors of an op until they die. A graph that captured the op may work on them at any
// later time. Raises when one cannot be restored.
void pin_all_permanently(engine::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info);

// Returns the name of the outermost op that the calling thread runs, or an empty string outside of
// ops.
std::string_view current_op_name();

// Raises the failure as PyTorch's own exception types: OutOfMemoryError, or RuntimeError.
[[noreturn]] void throw_status(const Status& status, std::string_view op_name);

}  // namespace teraio::pytorch
