// parallel_for(): runs independent tasks on a few threads.
#pragma once

#include <cstddef>
#include <functional>

namespace teraio::analysis {

// Calls work(0) ... work(count - 1), each once, on at most `thread_count` threads including the
// caller (fewer if the system refuses threads), and returns when all calls have returned. `work`
// must not throw.
void parallel_for(size_t count, int thread_count, const std::function<void(size_t)>& work);

}  // namespace teraio::analysis
