// FakeMemory: addresses that the CPU cannot use, as those of a GPU, over bytes that it can.
//
// The same pages are mapped twice: without any access, for the addresses that are handed out, and
// with, at a constant distance, for whoever plays the device. A touch of the former ends the
// process. Addresses are given first fit from the lowest on, so that released ones are soon used
// again.
//
// Threads: bytes() may come from any thread; everything else under the owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace teraio::testing {

class FakeMemory {
 public:
  // kUnsupported when the addresses cannot be reserved.
  static Result<std::unique_ptr<FakeMemory>> create(int64_t budget_bytes);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  // As Device's.
  std::byte* allocate(int64_t size_bytes);
  void release(std::byte* memory);
  void set_budget_bytes(int64_t budget_bytes) { usage_.budget_bytes = budget_bytes; }
  device::MemoryUsage usage() const;
  int64_t budget_bytes() const { return usage_.budget_bytes; }
  int64_t allocated_bytes() const { return usage_.allocated_bytes; }
  void reset_peak() { usage_.allocated_peak_bytes = usage_.allocated_bytes; }

  // Where the CPU finds what is at `address`: itself, when it is not one of these.
  std::byte* bytes(const std::byte* address) const;
  bool contains(const std::byte* address) const;
  // Of the block that begins there, as rounded; 0: none does.
  int64_t held_bytes(const std::byte* block) const;
  // All of it lies in one block that is handed out.
  bool is_allocated(const std::byte* begin, int64_t size_bytes) const;

 private:
  struct Block {
    int64_t requested_bytes;
    int64_t held_bytes;
  };

  FakeMemory(std::byte* addresses, std::byte* bytes, int64_t address_bytes, int64_t budget_bytes);
  int64_t first_fit(int64_t held_bytes, int64_t alignment) const;

  std::byte* const addresses_;
  std::byte* const bytes_;
  const int64_t address_bytes_;
  std::map<int64_t, Block> blocks_;  // by offset
  device::MemoryUsage usage_;
};

}  // namespace teraio::testing
