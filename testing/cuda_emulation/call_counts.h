// CallCounts: how often the program has called what costs time on a GPU: calls that wait, that make
// streams wait, that copy, that record or ask for an event, that ask for a capture, or that take
// and give back memory.
//
// Programs ask by the name of CUDA's function: cudaEmulatedCalls("cudaFree"), which the emulated
// runtime exports. Others than those that are counted give 0.
//
// Threads: one at a time (the machine's lock); cudaEmulatedCalls() any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace teraio::testing::emulated_cuda {

class CallCounts {
 public:
  void add(std::string_view name) {
    const auto found = counts_.find(name);
    ++(found != counts_.end() ? found->second : counts_[std::string(name)]);
  }
  uint64_t of(std::string_view name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace teraio::testing::emulated_cuda

extern "C" __attribute__((visibility("default"))) uint64_t cudaEmulatedCalls(const char* name);
