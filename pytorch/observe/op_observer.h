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

#include "observe/observed_thread.h"

namespace teraio::pytorch {

// The keys of what the observer of a call with `keys` calls.
inline c10::DispatchKeySet below_observer(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kObserverKey);
}

// The observer of every operator that has no typed one (observe/typed_observer.h). The arguments
// are the last values of `stack`, and the results replace them.
void observe_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace teraio::pytorch
