// run_beside(): work on another thread, where one may be used.
#pragma once

#include <future>
#include <system_error>

namespace teraio::planner {

// Runs `work` on another thread; in get() when there is to be none or the system refuses it.
template <typename Work>
auto run_beside(Work work, bool uses_one_thread) {
  if (uses_one_thread) return std::async(std::launch::deferred, work);
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

}  // namespace teraio::planner
