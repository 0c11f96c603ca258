// The steady clock against the standard library's.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace teraio {
namespace {

int64_t standard_now_ns() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

TEST(SteadyClock, LiesBetweenReadingsOfTheStandardClock) {
  const SteadyClock clock;
  for (int i = 0; i < 1000; ++i) {
    const int64_t before_ns = standard_now_ns();
    const int64_t now_ns = clock.now_ns();
    EXPECT_GE(now_ns, before_ns);
    EXPECT_LE(now_ns, standard_now_ns());
  }
}

TEST(SteadyClock, IsTheSameForEveryInstanceAndThread) {
  const int64_t before_ns = SteadyClock().now_ns();
  int64_t elsewhere_ns = 0;
  std::thread([&] { elsewhere_ns = SteadyClock().now_ns(); }).join();
  EXPECT_GE(elsewhere_ns, before_ns);
  EXPECT_LE(elsewhere_ns, SteadyClock().now_ns());
}

}  // namespace
}  // namespace teraio
