// Sizes and durations: units, parsing and formatting. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Parses a size such as "1.5GB", "800MiB", "1200000000" or "0" into bytes. Decimal prefixes are
// powers of 1000, those with an "i" powers of 1024. "B" may be omitted after a prefix, and case
// does not matter. Fractions of a byte are rounded down. With `whole_bytes` > 0, "40%" is that
// share of it. Fails (kInvalidArgument) for any other text, for a negative size, and from 2^62
// bytes on.
Result<int64_t> parse_size(std::string_view text, int64_t whole_bytes = 0);

// Formats a size with a decimal prefix and three significant digits: "1.50 GB"; whole bytes below 1
// kB: "512 B".
std::string format_size(int64_t size_bytes);

// Formats a duration: "3.21 s", "12.0 ms", "850 us" or "12 ns".
std::string format_duration(int64_t duration_ns);

// Rounds up to a multiple of `alignment_bytes`, which must be a power of two.
constexpr int64_t align_up(int64_t size_bytes, int64_t alignment_bytes) {
  return (size_bytes + alignment_bytes - 1) & ~(alignment_bytes - 1);
}

}  // namespace teraio
