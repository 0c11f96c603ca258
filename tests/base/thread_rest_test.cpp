#include "base/thread_rest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

namespace teraio {
namespace {

using std::chrono::milliseconds;

bool rests_in_time(ThreadRest& rest, int looks) {
  for (int i = 0; i < looks; ++i) {
    if (rest.look()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(ThreadRest, AThreadThatWaitsRests) {
  std::promise<void> end;
  std::thread thread([&] { end.get_future().wait(); });
  ThreadRest rest(thread.native_handle());
  EXPECT_FALSE(rest.look()) << "one look tells nothing";
  EXPECT_TRUE(rests_in_time(rest, 10'000));
  end.set_value();
  thread.join();
  EXPECT_TRUE(rest.look());
}

TEST(ThreadRest, AThreadThatComputesDoesNot) {
  std::atomic<bool> is_over = false;
  std::thread thread([&] {
    while (!is_over) continue;
  });
  ThreadRest rest(thread.native_handle());
  EXPECT_FALSE(rests_in_time(rest, 100));
  is_over = true;
  thread.join();
}

TEST(ThreadRest, AThreadThatHasEndedRests) {
  std::promise<void> end;
  std::thread thread([&] { end.get_future().wait(); });
  ThreadRest rest(thread.native_handle());
  end.set_value();
  thread.join();
  EXPECT_TRUE(rests_in_time(rest, 10'000));
}

}  // namespace
}  // namespace teraio
