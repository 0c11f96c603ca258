#include "device/memory_segments.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace teraio::device {

MemorySegments::Use::Use(Use&& other) noexcept
    : segments_(std::exchange(other.segments_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)) {}

MemorySegments::Use::~Use() {
  if (segments_ != nullptr) segments_->end_use(begin_);
}

// --- The owner ----------------------------------------------------------------------------------

void MemorySegments::add(const MemorySegment& segment) {
  const std::lock_guard lock(mutex_);
  entries_.try_emplace(segment.begin, Entry{.segment = segment});
}

void MemorySegments::remove(const std::byte* begin) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(begin);
  if (found == entries_.end()) return;
  found->second.is_leaving = true;
  changed_.wait(lock, [&] { return found->second.use_count == 0; });
  deregister_now(found->second);
  entries_.erase(found);
  changed_.notify_all();
}

// --- I/O ----------------------------------------------------------------------------------------

MemorySegments::Entry* MemorySegments::find(const std::byte* memory, int64_t size_bytes) {
  const auto next = entries_.upper_bound(memory);
  if (next == entries_.begin()) return nullptr;
  Entry& entry = std::prev(next)->second;
  return !entry.is_leaving && entry.segment.contains(memory, size_bytes) ? &entry : nullptr;
}

int64_t MemorySegments::bytes_in_one_segment(const std::byte* memory, int64_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto next = entries_.upper_bound(memory);
  if (next != entries_.end()) size_bytes = std::min(size_bytes, next->first - memory);
  if (next == entries_.begin()) return size_bytes;
  const MemorySegment& segment = std::prev(next)->second.segment;
  const int64_t left_bytes = segment.begin + segment.size_bytes - memory;
  return left_bytes > 0 ? std::min(size_bytes, left_bytes) : size_bytes;
}

MemorySegments::Use MemorySegments::use(SegmentRegistrar& registrar, const std::byte* memory,
                                        int64_t size_bytes) {
  std::unique_lock lock(mutex_);
  Entry* entry = find(memory, size_bytes);
  if (entry == nullptr) return {};
  ++entry->use_count;
  if (entry->state == State::kKnown) register_now(*entry, registrar, lock);
  changed_.wait(lock, [&] { return entry->state != State::kRegistering; });
  if (entry->state == State::kRegistered) return Use(*this, entry->segment.begin);
  --entry->use_count;
  changed_.notify_all();
  return {};
}

// Releases the mutex during registration, so that I/O to other segments can proceed.
void MemorySegments::register_now(Entry& entry, SegmentRegistrar& registrar,
                                  std::unique_lock<std::mutex>& lock) {
  entry.state = State::kRegistering;
  entry.registrar = &registrar;
  lock.unlock();
  const Status status = registrar.register_segment(entry.segment);
  lock.lock();
  entry.state = status.ok() ? State::kRegistered : State::kRefused;
  counters_.registered_count += status.ok() ? 1 : 0;
  counters_.registered_bytes += status.ok() ? entry.segment.size_bytes : 0;
  counters_.refused_count += status.ok() ? 0 : 1;
  changed_.notify_all();
}

void MemorySegments::deregister_now(Entry& entry) {
  if (entry.state == State::kRegistered) {
    entry.registrar->deregister_segment(entry.segment);
    --counters_.registered_count;
    counters_.registered_bytes -= entry.segment.size_bytes;
  }
  entry.state = State::kKnown;
  entry.registrar = nullptr;
}

void MemorySegments::end_use(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  --entries_.at(begin).use_count;
  changed_.notify_all();
}

void MemorySegments::leave(SegmentRegistrar& registrar) {
  std::unique_lock lock(mutex_);
  bool is_done = false;
  while (!is_done) {
    is_done = true;
    for (auto& [begin, entry] : entries_) {
      if (entry.registrar != &registrar) continue;
      if (entry.use_count == 0) deregister_now(entry);
      is_done &= entry.registrar == nullptr;
    }
    // I/O of another registrar still uses a segment. The set may change during the wait.
    if (!is_done) changed_.wait(lock);
  }
}

SegmentCounters MemorySegments::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace teraio::device
