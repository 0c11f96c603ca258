// AddressSpace: a reserved range of virtual addresses whose pages can be committed, decommitted and
// moved.
//
// A committed page is readable and writable, and uses physical memory after its first access. An
// access to any other page is a fault. The addresses stay reserved for the lifetime of the object,
// so no other mapping of the process can land among them. A forked child inherits the pages.
//
// Offsets and sizes are multiples of kPageBytes. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/range_set.h"
#include "base/status.h"

namespace teraio::device {

class AddressSpace {
 public:
  // Reserves `size_bytes` of addresses. If the system refuses, halves the size and tries again
  // until it falls below `least_bytes`. The range starts on a huge-page boundary, and no page is
  // committed. Returns kUnsupported if every attempt fails.
  static Result<std::unique_ptr<AddressSpace>> reserve(int64_t size_bytes, int64_t least_bytes);

  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  std::byte* at(int64_t offset_bytes) const { return base_ + offset_bytes; }
  int64_t offset_of(const std::byte* address) const { return address - base_; }
  bool contains(const std::byte* address) const {
    return address >= base_ && address < base_ + size_bytes_;
  }
  int64_t size_bytes() const { return size_bytes_; }

  // Returns false, without an effect, if the system refuses: it limits the number of mappings and
  // the amount of memory.
  bool commit(ByteRange range);
  // Returns the pages of `range` to the system. False if the system refuses.
  bool decommit(ByteRange range);

  // Moves the physical pages of `from` to the uncommitted addresses at `to_bytes`, without copying
  // or touching them; `from` becomes uncommitted. Where the system cannot move pages (can_move()),
  // calls replace(). Returns the number of bytes that moved, counted from the front of `from`:
  // fewer than all of them if the system refused the rest.
  int64_t move(ByteRange from, int64_t to_bytes);

  // Like move(), but decommits `from` and commits new pages at `to_bytes`, so the contents are
  // lost. Returns false if the system refuses; `from` is then committed, but its contents may be
  // lost.
  bool replace(ByteRange from, int64_t to_bytes);

  // Whether move() keeps the physical pages. Determined by a trial in reserve().
  bool can_move() const { return can_move_; }
  // Makes can_move() false, to test systems that cannot move pages.
  void forbid_move() { can_move_ = false; }

 private:
  AddressSpace(std::byte* mapping, int64_t mapping_bytes, std::byte* base, int64_t size_bytes);

  bool probe_move();
  int64_t move_mapped(ByteRange from, int64_t to_bytes);

  std::byte* mapping_;  // as mapped; base_ is its first huge-page boundary
  int64_t mapping_bytes_;
  std::byte* base_;
  int64_t size_bytes_;
  bool can_move_ = false;
};

}  // namespace teraio::device
