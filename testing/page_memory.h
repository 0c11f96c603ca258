// Page-aligned memory for transfers, filled with patterns that depend on the position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::testing {

class PageMemory {
 public:
  explicit PageMemory(int64_t size_bytes)
      : size_bytes_(size_bytes),
        bytes_(
            static_cast<std::byte*>(std::aligned_alloc(
                io::kBlockBytes, std::max(io::kBlockBytes, align_up(size_bytes, io::kBlockBytes)))),
            &std::free) {
    std::memset(bytes_.get(), 0, static_cast<size_t>(align_up(size_bytes, io::kBlockBytes)));
  }

  std::byte* data() { return bytes_.get(); }
  int64_t size_bytes() const { return size_bytes_; }

  // The pattern differs for every seed and at every position.
  void fill(uint64_t seed) {
    for (int64_t i = 0; i < size_bytes_; ++i) bytes_.get()[i] = pattern(seed, i);
  }
  bool holds(uint64_t seed) const { return first_difference(seed) == size_bytes_; }
  int64_t first_difference(uint64_t seed) const {
    int64_t i = 0;
    while (i < size_bytes_ && bytes_.get()[i] == pattern(seed, i)) ++i;
    return i;
  }

 private:
  static std::byte pattern(uint64_t seed, int64_t i) {
    const uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(i / 8);
    return static_cast<std::byte>((word * 0xBF58476D1CE4E5B9u) >> (8 * (i % 8)));
  }

  int64_t size_bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> bytes_;
};

}  // namespace teraio::testing
