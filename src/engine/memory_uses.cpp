#include "engine/memory_uses.h"

#include <algorithm>
#include <iterator>

namespace teraio::engine {
namespace {

uintptr_t address_of(const std::byte* memory) { return reinterpret_cast<uintptr_t>(memory); }

}  // namespace

void MemoryUses::note_free(const std::byte* memory, int64_t size_bytes, uint64_t op) {
  if (!is_asked_) {
    last_before_asked_ = std::max(last_before_asked_, op);
    return;
  }
  const uintptr_t begin = address_of(memory);
  const uintptr_t end = begin + static_cast<uintptr_t>(size_bytes);
  // Iterations give the same memory to the same tensors.
  const auto known = ranges_.find(begin);
  if (known != ranges_.end() && known->second.end == end) {
    known->second.op = op;
    return;
  }
  split_at(begin);
  split_at(end);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  ranges_.emplace(begin, Range{end, op});
}

uint64_t MemoryUses::last_use(const std::byte* memory, int64_t size_bytes) const {
  is_asked_ = true;
  const uintptr_t end = address_of(memory) + static_cast<uintptr_t>(size_bytes);
  uint64_t last = last_before_asked_;
  for (auto range = first_after(address_of(memory)); range != ranges_.end() && range->first < end;
       ++range)
    last = std::max(last, range->second.op);
  return last;
}

MemoryUses::Ranges::const_iterator MemoryUses::first_after(uintptr_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return next;
  const auto before = std::prev(next);
  return before->second.end > address ? before : next;
}

void MemoryUses::split_at(uintptr_t address) {
  const auto range = first_after(address);
  if (range == ranges_.end() || range->first >= address) return;
  const Range upper = range->second;
  ranges_[range->first].end = address;
  ranges_.emplace(address, upper);
}

}  // namespace teraio::engine
