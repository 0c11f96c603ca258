#include "base/clock.h"

namespace teraio {

void VirtualClock::set(int64_t moment_ns) const {
  int64_t now_ns = now_ns_.load(std::memory_order_relaxed);
  while (now_ns < moment_ns &&
         !now_ns_.compare_exchange_weak(now_ns, moment_ns, std::memory_order_relaxed)) {
  }
}

}  // namespace teraio
