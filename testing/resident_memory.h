// The resident memory of this process, as the system reports it; -1 if it does not.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace teraio::testing {

inline int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word != "Rss:") continue;
    int64_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes * 1024;
  }
  return -1;
}

}  // namespace teraio::testing
