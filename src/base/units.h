// Sizes and times as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Bytes of "1.5GB", "800MiB", "1200000000", "0". Decimal prefixes are powers of 1000, the ones with
// an "i" powers of 1024; "B" may be left out after a prefix; case does not matter. A fraction is
// rounded down to a byte. With `whole_bytes` > 0 also "40%": that share of it.
// Fails (kInvalidArgument) on anything else, on a negative size, and above 2^62.
Result<int64_t> parse_size(std::string_view text, int64_t whole_bytes = 0);

// "1.50 GB": three significant digits, decimal prefixes.
std::string format_size(int64_t size_bytes);

// "3.21 s", "12.0 ms", "850 us", "12 ns".
std::string format_duration(int64_t duration_ns);

// The next multiple of `alignment_bytes`, a power of two.
constexpr int64_t align_up(int64_t size_bytes, int64_t alignment_bytes) {
  return (size_bytes + alignment_bytes - 1) & ~(alignment_bytes - 1);
}

}  // namespace teraio
