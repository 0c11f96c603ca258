// ThreadRest: whether another thread of this process does nothing.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <ctime>
#include <optional>

namespace teraio {

// Looks at one thread again and again. It rests when it sleeps and has used no CPU time at kLooks
// looks in a row, or has ended; one that works sleeps for moments only. Threads: one at a time, but
// not the watched one.
class ThreadRest {
 public:
  static constexpr int kLooks = 5;

  // The thread must not have ended yet.
  explicit ThreadRest(pthread_t thread);

  // Call it about once in a millisecond. True: the thread has rested, then or before.
  bool look();

 private:
  std::optional<clockid_t> clock_;  // of the thread; none: the system has none
  int64_t cpu_time_ns_ = -1;
  int quiet_looks_ = 0;
};

}  // namespace teraio
