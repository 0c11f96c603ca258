// RunningOp: the outermost op that a thread runs.
//
// Threads: each has its own.
#pragma once

#include <c10/core/DispatchKey.h>

#include <string_view>

#include "op_info.h"

namespace teraio::pytorch {

// The dispatch key on which the observer stands.
inline constexpr c10::DispatchKey kObserverKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Lets the observer see the calling thread's ops also where it is turned off: inside the dispatch
// of a wrapper, such as a DTensor, which does so for the ops on the wrapper's parts, and inside an
// op whose calls need no look. Has no effect on a thread that is not observed.
class ObservedParts {
 public:
  ObservedParts();
  ~ObservedParts();
  ObservedParts(const ObservedParts&) = delete;
  ObservedParts& operator=(const ObservedParts&) = delete;

 private:
  const bool was_excluded_;
};

struct RunningOp {
  const OpInfo* op = nullptr;  // null outside of ops
  bool is_uncaptured = false;  // `op` is an operator that no graph captures
  bool is_typed = false;       // and one that TypedObserver runs with kernels of PyTorch
};

// The calling thread's, which is part of its ObservedThread. Null on a thread that has run no
// observed op.
extern constinit thread_local RunningOp* known_running_op;

// Returns the name of the outermost op that the calling thread runs, or an empty string outside of
// ops. The string lives until the process ends.
std::string_view current_op_name();

// True inside an operator that was called while the calling thread captured no graph. Code of the
// program that runs inside of it, such as an operator in Python, may have begun a capture since.
bool runs_uncaptured_op();

}  // namespace teraio::pytorch
