// MemoryAccount: what the blocks of a device take of its budget.
//
// A value that each device keeps. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

namespace teraio::device {

// As a budget: no limit.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

struct MemoryUsage {
  int64_t budget_bytes = 0;
  int64_t allocated_bytes = 0;       // in use, after the allocator's rounding
  int64_t allocated_peak_bytes = 0;  // since the last reset_peak()
  int64_t reserved_bytes = 0;  // physical memory held: allocated, plus free memory kept for reuse
  int64_t reserved_peak_bytes = 0;
  int64_t framework_bytes = 0;     // of the budget, what another allocator holds
  int64_t rounding_bytes = 0;      // lost to rounding (internal fragmentation)
  int64_t largest_free_bytes = 0;  // largest allocation for which no block moves
};

class MemoryAccount {
 public:
  explicit MemoryAccount(int64_t budget_bytes) { set_budget_bytes(budget_bytes); }

  // `held_bytes`: the size after the allocator's rounding. Returns `memory`.
  std::byte* add(std::byte* memory, int64_t requested_bytes, int64_t held_bytes);
  // The block is at `to` from now on. Requires has(from).
  void move(const std::byte* from, const std::byte* to);
  // Returns held_bytes(). Requires has().
  int64_t remove(const std::byte* memory);
  bool has(const std::byte* memory) const { return blocks_.contains(memory); }
  int64_t held_bytes(const std::byte* memory) const { return blocks_.at(memory).held_bytes; }

  // Memory of other owners, which may be negative.
  void add_outside_bytes(int64_t size_bytes);
  // Negative ones count as 0.
  void set_budget_bytes(int64_t budget_bytes);
  void reset_peak() { allocated_peak_bytes_ = allocated_bytes_; }

  int64_t budget_bytes() const { return budget_bytes_; }
  int64_t allocated_bytes() const { return allocated_bytes_; }
  // Negative where more is allocated than the budget holds by now.
  int64_t room_bytes() const { return budget_bytes_ - allocated_bytes_; }
  // Of a device that holds no more than it has allocated.
  MemoryUsage usage() const;

 private:
  struct Block {
    int64_t requested_bytes;
    int64_t held_bytes;
  };

  std::unordered_map<const std::byte*, Block> blocks_;
  int64_t budget_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  int64_t allocated_peak_bytes_ = 0;
  int64_t rounding_bytes_ = 0;
};

}  // namespace teraio::device
