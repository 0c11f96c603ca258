// HostAddressSpace: an AddressSpace of the CPU's memory.
//
// A committed page is readable and writable, and uses physical memory after its first access. A
// forked child inherits the pages. The system refuses to commit pages when the process
// has too many mappings, or too much memory.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/address_space.h"

namespace teraio::device {

class HostAddressSpace final : public AddressSpace {
 public:
  // Reserves `size_bytes` of addresses. If the system refuses, halves the size and tries again
  // until it falls below `least_bytes`. The range starts on a huge-page boundary, and no page is
  // committed. Returns kUnsupported if every attempt fails.
  static Result<std::unique_ptr<HostAddressSpace>> reserve(int64_t size_bytes, int64_t least_bytes);

  ~HostAddressSpace() override;

  bool commit(ByteRange range) override;
  bool decommit(ByteRange range) override;

 private:
  HostAddressSpace(std::byte* mapping, int64_t mapping_bytes, std::byte* base, int64_t size_bytes);

  std::byte* mapping_;  // as mapped; the space begins at its first huge-page boundary
  int64_t mapping_bytes_;
};

}  // namespace teraio::device
