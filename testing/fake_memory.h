// FakeMemory: memory at addresses that the CPU cannot use, like those of a GPU.
//
// The same pages are mapped twice: without access, for the addresses that allocate() returns, and
// with access, at a constant distance, for the code that acts as the device. An access to the
// former ends the process. Allocation is first fit from the lowest address, so that released
// addresses are soon reused.
//
// Threads: bytes() may be called by any thread, all else under the owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/status.h"
#include "device/device_memory.h"

namespace teraio::testing {

class FakeMemory {
 public:
  // Returns kUnsupported if the addresses cannot be reserved.
  static Result<std::unique_ptr<FakeMemory>> create(int64_t budget_bytes);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  // As in Device.
  std::byte* allocate(int64_t size_bytes);
  void release(std::byte* memory);
  device::MemoryAccount& account() { return account_; }

  // Where the CPU finds the bytes at `address`; `address` itself if it is not in this memory.
  std::byte* bytes(const std::byte* address) const;

 private:
  FakeMemory(std::byte* addresses, std::byte* bytes, int64_t address_bytes, int64_t budget_bytes);
  bool contains(const std::byte* address) const;
  int64_t first_fit(int64_t held_bytes, int64_t alignment) const;

  std::byte* const addresses_;
  std::byte* const bytes_;
  const int64_t address_bytes_;
  std::map<int64_t, int64_t> blocks_;  // their rounded sizes, by offset
  device::MemoryAccount account_;
};

}  // namespace teraio::testing
