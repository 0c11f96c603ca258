// MemoryUses: which op used each range of free device memory last.
//
// Memory that a tensor has left is free for all compute that is enqueued from then on, but a
// transfer into it has to wait for compute that may still use it. Where a tensor left by a copy,
// that was over before the copy began. Entries for memory that is allocated again are kept until it
// is freed, so the map never exceeds the device's address range.
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
  // The last op that used a part of the range; 0: none has.
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
};

}  // namespace teraio::engine
