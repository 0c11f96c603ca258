#include "io/copy_watcher.h"

#include <utility>

#include "base/thread.h"

namespace teraio::io {

Result<std::unique_ptr<CopyWatcher>> CopyWatcher::create(device::Device& device,
                                                         std::function<void()> on_end) {
  std::unique_ptr<CopyWatcher> watcher(new CopyWatcher(device, std::move(on_end)));
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    Result<std::thread> thread =
        start_thread([self = watcher.get(), direction] { self->wait_for_copies(direction); });
    if (!thread.ok()) return thread.status();
    watcher->threads_[static_cast<size_t>(direction)] = std::move(*thread);
  }
  return watcher;
}

CopyWatcher::~CopyWatcher() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void CopyWatcher::watch(Direction direction, uint64_t tag, const Result<device::Event>& end) {
  if (!end.ok()) return add({tag, end.status()});
  {
    const std::lock_guard lock(mutex_);
    copies_[static_cast<size_t>(direction)].push_back({tag, *end});
  }
  changed_.notify_all();
}

void CopyWatcher::add(End end) {
  {
    const std::lock_guard lock(mutex_);
    ends_.push_back(std::move(end));
  }
  on_end_();
}

std::vector<CopyWatcher::End> CopyWatcher::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

void CopyWatcher::wait_for_copies(Direction direction) {
  std::deque<Copy>& copies = copies_[static_cast<size_t>(direction)];
  device_.bind_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || !copies.empty(); });
    if (copies.empty()) return;
    const Copy copy = copies.front();
    copies.pop_front();
    lock.unlock();
    add({copy.tag, device_.wait(copy.end)});
    lock.lock();
  }
}

}  // namespace teraio::io
