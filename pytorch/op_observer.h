// The op observer: a boxed fallback on a dispatch key above autograd that sees every operator
// before and after it runs, on an unmodified PyTorch.
//
// Before an op it tells the runtime which storages the op reads and writes (the runtime brings them
// back and pins them); after it, which it has made. Ops inside ops count as part of the outermost
// one. Only threads that were enabled are observed: those of Python and of autograd, and not, for
// example, the workers of gloo, which use raw pointers behind the operators' back.
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

// The calling thread's ops are parts of `info` until leave_op(). False, with no effect, when they
// are parts of another op already.
bool enter_op(const OpInfo& info);
void leave_op(ActiveSession& session);

// Pins the tensors of an op until they die. A graph that captured the op may work on them at any
// later time. Raises when one cannot be restored.
void pin_all_permanently(engine::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info);

// The outermost op that the calling thread runs; empty outside of ops.
std::string_view current_op_name();

// Raises the failure as PyTorch's own exception types: OutOfMemoryError, or RuntimeError.
[[noreturn]] void throw_status(const Status& status, std::string_view op_name);

}  // namespace teraio::pytorch
