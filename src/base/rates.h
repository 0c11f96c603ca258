// Rates: how fast a tier, a drive or a link moves bytes in each direction. A value type.
#pragma once

#include <cstdint>

namespace teraio {

// Bytes per second; 0 where a rate is unknown. Reads move bytes to the device, writes from it.
struct Rates {
  int64_t read_bytes_per_second = 0;
  int64_t write_bytes_per_second = 0;
  bool operator==(const Rates&) const = default;
};

}  // namespace teraio
