// Slowdown: a drive that stays below what was planned with, and what the likely cause is.
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
  int64_t bytes_written = 0;                       // by us, since the store opened
  std::optional<drives::Temperature> temperature;  // nullopt: the drive does not tell
};

// "writes 600 MB/s, 2.10 GB/s planned; its temperature is 84 C, it slows down at 82 C": names the
// cause that the facts show, says "probably" of one that they suggest, else that none is known.
std::string describe(const Slowdown& slowdown);

}  // namespace teraio::storage
