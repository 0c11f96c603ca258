// Slowdown: a drive that stays slower than the plan assumes, and the cause where it is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "drives/drive_facts.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct Slowdown {
  io::Direction direction = io::Direction::kRead;
  double bytes_per_second = 0;  // under load
  double expected_bytes_per_second = 0;
  int64_t bytes_written = 0;                       // by this store since it opened
  std::optional<drives::Temperature> temperature;  // nullopt if the drive does not report it
};

// Returns text such as "writes 600 MB/s, 2.10 GB/s planned; its temperature is 84 C, it slows down
// at 82 C". Names a cause that the facts show, and says otherwise that none is known.
std::string describe(const Slowdown& slowdown);

}  // namespace teraio::storage
