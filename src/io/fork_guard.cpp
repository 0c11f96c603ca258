#include "io/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <unordered_set>
#include <utility>

namespace teraio::io {
namespace {

// The forking thread holds the lock across fork(), so that the child finds the set whole.
class GuardedDescriptors {
 public:
  void add(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.insert(fd);
  }

  void remove(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.erase(fd);
  }

  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }

  // Only calls that a child of a program with threads may make: it frees no memory.
  void after_fork_in_child() {
    const int nothing = fds_.empty() ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : fds_)
      if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) close(fd);
    if (nothing >= 0) close(nothing);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::unordered_set<int> fds_;
};

GuardedDescriptors& guarded_descriptors() {
  static auto* instance = [] {
    auto* descriptors = new GuardedDescriptors();  // the process may fork until its end
    pthread_atfork([] { guarded_descriptors().before_fork(); },
                   [] { guarded_descriptors().after_fork_in_parent(); },
                   [] { guarded_descriptors().after_fork_in_child(); });
    return descriptors;
  }();
  return *instance;
}

}  // namespace

ForkGuard::ForkGuard(int fd) : fd_(fd) {
  if (fd_ >= 0) guarded_descriptors().add(fd_);
}

ForkGuard::ForkGuard(ForkGuard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ForkGuard& ForkGuard::operator=(ForkGuard&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ForkGuard::~ForkGuard() {
  if (fd_ >= 0) guarded_descriptors().remove(fd_);
}

}  // namespace teraio::io
