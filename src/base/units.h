// Sizes and durations: their units, and how people write them. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// The bytes that "1.5GB", "800MiB", "1200000000" or "0" stand for. Decimal prefixes are powers of
// 1000, those with an "i" are powers of 1024. "B" may be omitted after a prefix, and case does not
// matter. A fraction of a byte is rounded down. With `whole_bytes` > 0, "40%" stands for that share
// of it. kInvalidArgument for anything else, for a negative size, and above 2^62.
Result<int64_t> parse_size(std::string_view text, int64_t whole_bytes = 0);

// "1.50 GB": three significant digits and a decimal prefix.
std::string format_size(int64_t size_bytes);

// "3.21 s", "12.0 ms", "850 us" or "12 ns".
std::string format_duration(int64_t duration_ns);

// The next multiple of `alignment_bytes`, a power of two.
constexpr int64_t align_up(int64_t size_bytes, int64_t alignment_bytes) {
  return (size_bytes + alignment_bytes - 1) & ~(alignment_bytes - 1);
}

}  // namespace teraio
