#include "base/thread_rest.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace teraio {
namespace {

// The kernel's encoding of a thread's CPU clock (CPUCLOCK_PID in include/linux/posix-timers.h).
pid_t thread_of(clockid_t clock) { return static_cast<pid_t>(~(clock >> 3)); }

// proc_pid_stat(5): the state follows the name, which is in parentheses and may contain any.
bool is_asleep(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || line.compare(name_end, 3, ") S") == 0;
}

}  // namespace

ThreadRest::ThreadRest(pthread_t thread) {
  clockid_t clock = 0;
  if (pthread_getcpuclockid(thread, &clock) == 0) clock_ = clock;
}

bool ThreadRest::look() {
  if (quiet_looks_ >= kLooks) return true;
  timespec time = {};
  if (!clock_ || clock_gettime(*clock_, &time) != 0) {  // it has ended
    quiet_looks_ = kLooks;
    return true;
  }
  const int64_t cpu_time_ns = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  const bool is_quiet = cpu_time_ns == cpu_time_ns_ && is_asleep(thread_of(*clock_));
  quiet_looks_ = is_quiet ? quiet_looks_ + 1 : 0;
  cpu_time_ns_ = cpu_time_ns;
  return quiet_looks_ >= kLooks;
}

}  // namespace teraio
