// Python threads that a session did not see start: workers of a queue or of a pool that is older
// than the session, and threads that another library started.
#pragma once

#include <cstdint>
#include <vector>

namespace teraio::pytorch {

// Observes the ops of all Python threads of this process, the calling one included. A thread that
// runs now is observed when it calls or returns from its next function; an op that it is in the
// middle of is not: see threads_in_unfinished_ops(). A profiler that a thread has set stays. Takes
// microseconds, so that it can be called in every step for threads that came since.
//
// Threads: the caller holds the GIL.
void observe_python_threads();

// To be called when a session starts: the thread that started an earlier session is not observed
// any more, although observe_python_threads() has seen it. The caller holds the GIL.
void forget_python_threads();

// Returns the Python threads that may be in the middle of an op that is not observed, after
// observe_python_threads(), as numbers of threading.get_ident(). The others are observed by now,
// have ended, or have slept as no op does during the last calls (ThreadRest): whoever waits calls
// it about once in a millisecond. The caller holds the GIL, and releases it between two calls.
std::vector<uint64_t> threads_in_unfinished_ops();

}  // namespace teraio::pytorch
