// AddressSpace: one reserved range of virtual addresses whose pages are added, taken away and
// moved.
//
// A page is committed (readable and writable; it costs memory from its first touch on) or not (an
// access is a fault). The addresses stay reserved all the time, so nothing else of the process ever
// lands between them. A forked child inherits the pages. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/page_ranges.h"

namespace teraio::device {

class AddressSpace {
 public:
  // Reserves `size_bytes`, or less (halved, down to least_bytes) where the system refuses. Starts
  // on a huge page; nothing is committed. kUnsupported when nothing is to be had.
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

  // False when the system refuses (its limit of mappings or of memory); then nothing changed.
  bool commit(PageRange range);
  // Gives the pages back to the system.
  bool decommit(PageRange range);

  // Commits the uncommitted pages at `to_bytes` with the physical pages of `from`, which becomes
  // uncommitted. No byte is copied and no page is touched. Where the system cannot move pages, they
  // are replaced. Returns how many bytes from the front of `from` were moved: less than all when
  // the system refused the rest.
  int64_t move(PageRange from, int64_t to_bytes);

  // As move(), but gives the pages back and takes new ones, which are yet to be touched. False when
  // the system refuses.
  bool replace(PageRange from, int64_t to_bytes);

  // Whether move() keeps the physical pages.
  bool can_move() const { return can_move_; }
  // For tests of systems that cannot.
  void forbid_move() { can_move_ = false; }

 private:
  AddressSpace(std::byte* mapping, int64_t mapping_bytes, std::byte* base, int64_t size_bytes);

  bool probe_move();
  int64_t move_mapped(PageRange from, int64_t to_bytes);

  std::byte* mapping_;  // as mapped; base_ is its first huge-page boundary
  int64_t mapping_bytes_;
  std::byte* base_;
  int64_t size_bytes_;
  bool can_move_ = false;
};

}  // namespace teraio::device
