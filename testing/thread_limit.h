// run_with_threads(): a process that the system refuses further threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "testing/child_process.h"

namespace teraio::testing {

// Only root can become a user that has no other process.
inline bool can_limit_threads() { return geteuid() == 0; }

// Calls `body` in a child process that may start `thread_count` threads. Returns the result of
// `body` (0 to 255), or -1 if the child ended in another way. Requires can_limit_threads().
inline int run_with_threads(int32_t thread_count, const std::function<int()>& body) {
  return exit_code_in_child([&] {
    // The main thread counts, and so do those that the thread sanitizer starts for itself at the
    // first thread of a child.
    std::thread([] {}).join();
    const auto running_count =
        std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    const auto limit = static_cast<rlim_t>(thread_count + running_count);
    const rlimit limits = {limit, limit};
    const auto user = static_cast<uid_t>(1'000'000'000 + getpid());
    if (setrlimit(RLIMIT_NPROC, &limits) != 0 || setuid(user) != 0) return 255;
    return body();
  });
}

}  // namespace teraio::testing
