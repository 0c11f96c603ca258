// OwnMemory: looks for words in the memory that the process has allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace teraio::pytorch {

struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// Calls `found` with the address of each aligned word that equals one of `wanted`, in private
// writable memory that belongs to no file: the heap, the arenas and mappings of allocators. Leaves
// out the ranges in `left_out`. The kernel copies the memory, so that another thread may free it
// meanwhile. A word that another thread changes meanwhile may be missed.
//
// Returns false when not all memory was looked at: the system refuses, or there are more than
// 32 GiB of it. A GiB takes some tenths of a second. Threads: any; `found` is called by this one.
bool find_words(std::span<const uintptr_t> wanted, std::vector<AddressRange> left_out,
                const std::function<void(uintptr_t address)>& found);

// Copies the word at `address`. Returns 0 when there is no memory.
uintptr_t word_at(uintptr_t address);

}  // namespace teraio::pytorch
