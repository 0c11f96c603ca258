#pragma once

#include <cstdint>

namespace teraio::engine {

// A number that only the calling thread has.
inline uintptr_t thread_tag() {
  static thread_local char tag;
  return reinterpret_cast<uintptr_t>(&tag);
}

}  // namespace teraio::engine
