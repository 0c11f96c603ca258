#include "base/yielding_mutex.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>

namespace teraio {
namespace {

thread_local bool has_other_lock = false;

class YieldingMutexTest : public ::testing::Test {
 protected:
  void take_other_lock() {
    other_lock_.lock();
    has_other_lock = true;
  }
  void let_go_of_other_lock() {
    has_other_lock = false;
    other_lock_.unlock();
  }

  std::mutex other_lock_;
  YieldingMutex<std::mutex> mutex_{[this](const std::function<void()>& wait) {
    if (!has_other_lock) return false;
    let_go_of_other_lock();
    wait();
    take_other_lock();
    return true;
  }};
};

// Each holds what the other one waits for.
TEST_F(YieldingMutexTest, TheOwnerGetsTheOtherLockOfAThreadThatWaits) {
  mutex_.lock();
  std::promise<void> has_begun;
  std::thread waiting([&] {
    take_other_lock();
    has_begun.set_value();
    mutex_.lock();
    EXPECT_TRUE(has_other_lock);
    mutex_.unlock();
    let_go_of_other_lock();
  });
  has_begun.get_future().wait();
  take_other_lock();
  let_go_of_other_lock();
  mutex_.unlock();
  waiting.join();
}

TEST_F(YieldingMutexTest, AThreadWithoutTheOtherLockWaitsForTheMutexAlone) {
  mutex_.lock();
  bool was_free = true;
  std::promise<void> is_over;
  std::thread waiting([&] {
    mutex_.lock();
    was_free = other_lock_.try_lock();  // the main thread holds it
    mutex_.unlock();
    is_over.set_value();
  });
  take_other_lock();
  mutex_.unlock();
  is_over.get_future().wait();
  EXPECT_FALSE(was_free);
  let_go_of_other_lock();
  waiting.join();
}

TEST(PlainYieldingMutexTest, ExcludesThreads) {
  YieldingMutex<std::recursive_mutex> mutex;
  int64_t count = 0;
  const auto work = [&] {
    for (int i = 0; i < 10'000; ++i) {
      const std::lock_guard lock(mutex);
      const std::lock_guard again(mutex);
      ++count;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(count, 20'000);
}

}  // namespace
}  // namespace teraio
