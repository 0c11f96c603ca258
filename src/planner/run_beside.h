// run_beside(): work on another thread.
#pragma once

#include <future>
#include <system_error>

namespace teraio::planner {

// Runs `work` on another thread, or in get() when the system refuses a thread.
template <typename Work>
auto run_beside(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

}  // namespace teraio::planner
