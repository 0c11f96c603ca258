// What the emulated GPU exports beside CUDA's calls, for programs that may run elsewhere, too.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace teraio::testing {

// cudaEmulatedCalls(name), see testing/cuda_emulation; null where the emulated GPU is not
// preloaded.
using EmulatedCalls = uint64_t (*)(const char*);
inline EmulatedCalls emulated_calls() {
  return reinterpret_cast<EmulatedCalls>(dlsym(RTLD_DEFAULT, "cudaEmulatedCalls"));
}

// cudaEmulatedLimitMaps(map_count_max), likewise.
using EmulatedMapLimit = void (*)(int64_t);
inline EmulatedMapLimit emulated_map_limit() {
  return reinterpret_cast<EmulatedMapLimit>(dlsym(RTLD_DEFAULT, "cudaEmulatedLimitMaps"));
}

}  // namespace teraio::testing
