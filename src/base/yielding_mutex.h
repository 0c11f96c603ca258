// YieldingMutex: a mutex whose owner may need another lock before it lets go, while a thread that
// holds that other lock waits for the mutex. Such a thread lets go of the other lock meanwhile.
//
// In PyTorch the other lock is Python's: a thread may call with it, and the owner of the mutex may
// need it, for example in an allocator that records the Python stack of each allocation.
//
// Threads: as for `Mutex`, std::mutex or std::recursive_mutex.
#pragma once

#include <functional>
#include <utility>

namespace teraio {

// Lets go of the other lock that the calling thread holds, calls the argument, and takes the lock
// again. May return false and do nothing when the thread does not hold the other lock.
using WaitWithoutOtherLock = std::function<bool(const std::function<void()>& wait)>;

template <typename Mutex>
class YieldingMutex {
 public:
  // Without `wait_without_other_lock` it is a plain mutex.
  explicit YieldingMutex(WaitWithoutOtherLock wait_without_other_lock = {})
      : wait_without_other_lock_(std::move(wait_without_other_lock)) {}

  // Inline, because every op locks.
  [[gnu::always_inline]] void lock() {
    if (!mutex_.try_lock()) [[unlikely]]
      wait_and_lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // The other lock is taken again without the mutex: the next owner of both may come meanwhile.
  [[gnu::noinline]] void wait_and_lock() {
    do {
      const bool has_waited = wait_without_other_lock_ && wait_without_other_lock_([this] {
                                mutex_.lock();
                                mutex_.unlock();
                              });
      if (!has_waited) return mutex_.lock();
    } while (!mutex_.try_lock());
  }

  Mutex mutex_;
  const WaitWithoutOtherLock wait_without_other_lock_;
};

}  // namespace teraio
