// The counts of CUDA's calls on the emulated GPU, for programs that may run elsewhere, too.
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

}  // namespace teraio::testing
