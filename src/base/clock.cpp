#include "base/clock.h"

#include <limits>

namespace teraio {

// Of several tries, the one in which the least time passed between the readings of the clock.
int64_t unix_offset_ns(const Clock& clock) {
  constexpr int kTries = 5;
  int64_t shortest_ns = std::numeric_limits<int64_t>::max();
  int64_t offset_ns = 0;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before_ns = clock.now_ns();
    const int64_t unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
    const int64_t after_ns = clock.now_ns();
    if (after_ns - before_ns >= shortest_ns) continue;
    shortest_ns = after_ns - before_ns;
    offset_ns = unix_ns - (before_ns + shortest_ns / 2);
  }
  return offset_ns;
}

void VirtualClock::set(int64_t time_ns) const {
  int64_t now_ns = now_ns_.load(std::memory_order_relaxed);
  while (now_ns < time_ns &&
         !now_ns_.compare_exchange_weak(now_ns, time_ns, std::memory_order_relaxed)) {
  }
}

}  // namespace teraio
