// The op observer: kernels on a dispatch key above autograd that see every operator before and
// after it runs, on an unmodified PyTorch. A boxed fallback serves any operator; those that are
// called most have a typed one.
//
// Before an op, the observer tells the runtime which storages the op reads and writes, and the
// runtime restores and pins them. After the op, the observer tells it which storages the op
// created. Nested ops count as part of the outermost one: what they use besides is pinned until the
// outermost op ends.
//
// Threads: ops run on any thread, with or without the GIL. The observer takes the runtime's lock,
// and never waits for the GIL while it holds that lock. An op is observed only on a thread for
// which observe_this_thread() is on: the thread that started the session, the threads that Python
// starts (intercepted_methods.py turns it on), and autograd's threads. Others are not observed,
// for example the workers of gloo, which use raw pointers without operators.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

#include <span>
#include <string_view>
#include <vector>

#include "active_session.h"
#include "base/status.h"
#include "op_info.h"

namespace teraio::pytorch {

// The dispatch key on which the observer stands.
inline constexpr c10::DispatchKey kObserverKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// The keys of what the observer of a call with `keys` calls.
inline c10::DispatchKeySet below_observer(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kObserverKey);
}

// The observer of every operator that has no typed one (typed_observer.h). The arguments are the
// last values of `stack`, and the results replace them.
void observe_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The name of the dispatch key on which the observer stands. Operators of higher order, which are
// Python code and have no fallbacks, must let it through.
std::string_view observer_dispatch_key();

// Turns the observer on or off for the calling thread. Autograd's threads take over the setting of
// the thread that calls backward.
void observe_this_thread(bool is_on);
bool is_this_thread_observed();

// False inside the dispatch of a wrapper, such as a DTensor: it calls ops on the tensors inside,
// which do not reach the observer.
bool is_observer_reached();

// Lets the observer see the calling thread's ops also inside the dispatch of a wrapper, such as a
// DTensor, which turns it off for the ops on the wrapper's parts. Has no effect on a thread that is
// not observed.
class ObservedParts {
 public:
  ObservedParts();
  ~ObservedParts();
  ObservedParts(const ObservedParts&) = delete;
  ObservedParts& operator=(const ObservedParts&) = delete;

 private:
  const bool was_excluded_;
};

// Makes the calling thread's ops nested ops of `info` until leave_op(). `info` must live until
// then. Returns false and has no effect when the thread runs an op already; the caller must not
// call leave_op() then.
bool enter_op(const OpInfo& info);
// Unpins what the nested ops have used. Call it on the thread that called enter_op().
void leave_op(ActiveSession& session);

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
void pin_all_permanently(engine::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info);

// True inside an operator that was called while the calling thread captured no graph. Code of the
// program that runs inside of it, such as an operator in Python, may have begun a capture since.
bool runs_uncaptured_op();

// Returns the name of the outermost op that the calling thread runs, or an empty string outside of
// ops. The string lives until the process ends.
std::string_view current_op_name();

// Raises `status`, which must not be ok, as the C++ exception that PyTorch turns into Python's:
// torch.OutOfMemoryError for kOutOfMemory, what throw_interrupt() raises for kInterrupted, and
// RuntimeError for everything else. The message names the op; an empty `op_name` stands for an
// allocation outside of operators.
[[noreturn]] void throw_status(const Status& status, std::string_view op_name);

}  // namespace teraio::pytorch
