#include "io/copy_watcher.h"

#include <utility>

#include "base/thread.h"

namespace teraio::io {

Result<std::unique_ptr<CopyWatcher>> CopyWatcher::create(device::DeviceOrder& device,
                                                         std::function<void()> on_end) {
  std::unique_ptr<CopyWatcher> watcher(new CopyWatcher(device, std::move(on_end)));
  for (Lane& lane : watcher->lanes_) {
    Result<std::thread> thread = start_thread([self = watcher.get(), &lane] {
      self->device_.call_on_device([&] { self->wait_for_copies(lane); });
    });
    if (!thread.ok()) return thread.status();
    lane.thread = std::move(*thread);
  }
  return watcher;
}

CopyWatcher::~CopyWatcher() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  for (Lane& lane : lanes_) {
    lane.changed.notify_one();
    if (lane.thread.joinable()) lane.thread.join();
  }
}

void CopyWatcher::watch(Direction direction, uint64_t tag, const Result<device::Event>& end) {
  if (!end.ok()) return add({tag, end.status()});
  Lane& lane = lanes_[static_cast<size_t>(direction)];
  {
    const std::lock_guard lock(mutex_);
    lane.copies.push_back({tag, *end});
  }
  lane.changed.notify_one();
}

void CopyWatcher::add(End end) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = ends_.empty();
    ends_.push_back(std::move(end));
  }
  if (is_first) on_end_();
}

std::vector<CopyWatcher::End> CopyWatcher::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

void CopyWatcher::wait_for_copies(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    lane.changed.wait(lock, [&] { return is_stopping_ || !lane.copies.empty(); });
    if (lane.copies.empty()) return;
    const Copy copy = lane.copies.front();
    lane.copies.pop_front();
    lock.unlock();
    add({copy.tag, device_.wait(copy.end)});
    lock.lock();
  }
}

}  // namespace teraio::io
