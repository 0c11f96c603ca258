#include "device/memory_account.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace teraio::device {

std::byte* MemoryAccount::add(std::byte* memory, int64_t requested_bytes, int64_t held_bytes) {
  blocks_.emplace(memory, Block{requested_bytes, held_bytes});
  rounding_bytes_ += held_bytes - requested_bytes;
  add_outside_bytes(held_bytes);
  return memory;
}

void MemoryAccount::move(const std::byte* from, const std::byte* to) {
  auto block = blocks_.extract(from);
  TERAIO_CHECK(!block.empty());
  block.key() = to;
  blocks_.insert(std::move(block));
}

int64_t MemoryAccount::remove(const std::byte* memory) {
  const auto found = blocks_.find(memory);
  TERAIO_CHECK(found != blocks_.end());
  const Block block = found->second;
  blocks_.erase(found);
  rounding_bytes_ -= block.held_bytes - block.requested_bytes;
  allocated_bytes_ -= block.held_bytes;
  return block.held_bytes;
}

void MemoryAccount::add_outside_bytes(int64_t size_bytes) {
  allocated_bytes_ += size_bytes;
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, allocated_bytes_);
}

void MemoryAccount::set_budget_bytes(int64_t budget_bytes) {
  budget_bytes_ = std::max<int64_t>(budget_bytes, 0);
}

MemoryUsage MemoryAccount::usage() const {
  MemoryUsage usage;
  usage.budget_bytes = budget_bytes_;
  usage.allocated_bytes = allocated_bytes_;
  usage.allocated_peak_bytes = allocated_peak_bytes_;
  usage.reserved_bytes = allocated_bytes_;
  usage.reserved_peak_bytes = allocated_peak_bytes_;
  usage.rounding_bytes = rounding_bytes_;
  usage.largest_free_bytes = std::max<int64_t>(room_bytes(), 0);
  return usage;
}

}  // namespace teraio::device
