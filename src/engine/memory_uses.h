// MemoryUses: which op used each range of free device memory last.
//
// Memory that a tensor has left is free for all compute that is enqueued from then on, but a
// transfer into it has to wait for compute that may still use it. Where a tensor left by a copy,
// that was over before the copy began. Entries for memory that is allocated again are kept until it
// is freed, so the map never exceeds the device's address range.
//
// Where no transfer has asked yet, as in a session whose budget holds everything, ranges are not
// kept apart: transfers wait for the last op that used any of what was freed by then.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace teraio::engine {

class MemoryUses {
 public:
  // The range is free, and `op` (ComputePoints) used it last.
  void note_free(const std::byte* memory, int64_t size_bytes, uint64_t op);
  // The last op that used a part of the range, or a later one; 0: none has.
  uint64_t last_use(const std::byte* memory, int64_t size_bytes) const;

 private:
  struct Range {
    uintptr_t end = 0;
    uint64_t op = 0;
  };
  using Ranges = std::map<uintptr_t, Range>;  // by their begin

  // The first range that ends after this address.
  Ranges::const_iterator first_after(uintptr_t address) const;
  void split_at(uintptr_t address);

  Ranges ranges_;  // they do not overlap
  mutable bool is_asked_ = false;
  uint64_t last_before_asked_ = 0;
};

}  // namespace teraio::engine
