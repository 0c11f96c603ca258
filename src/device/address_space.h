// AddressSpace: a reserved range of virtual addresses whose pages can be committed and decommitted.
//
// An access to a page that is not committed is a fault. The addresses stay reserved for the
// lifetime of the object, so no other mapping of the process can land among them.
//
// Offsets and sizes are multiples of page_bytes(). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range_set.h"

namespace teraio::device {

class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  std::byte* at(int64_t offset_bytes) const { return base_ + offset_bytes; }
  int64_t offset_of(const std::byte* address) const { return address - base_; }
  bool contains(const std::byte* address) const {
    return address >= base_ && address < base_ + size_bytes_;
  }
  int64_t size_bytes() const { return size_bytes_; }
  int64_t page_bytes() const { return page_bytes_; }

  // Returns false, without an effect, if the system refuses.
  virtual bool commit(ByteRange range) = 0;
  // Returns the pages of `range` to the system. False if the system refuses.
  virtual bool decommit(ByteRange range) = 0;

 protected:
  AddressSpace(std::byte* base, int64_t size_bytes, int64_t page_bytes)
      : base_(base), size_bytes_(size_bytes), page_bytes_(page_bytes) {}

 private:
  std::byte* base_;
  int64_t size_bytes_;
  int64_t page_bytes_;
};

}  // namespace teraio::device
