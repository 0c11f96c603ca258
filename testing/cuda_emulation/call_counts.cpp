#include "testing/cuda_emulation/call_counts.h"

#include "testing/cuda_emulation/machine.h"

extern "C" uint64_t cudaEmulatedCalls(const char* name) {
  using namespace teraio::testing::emulated_cuda;
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  return machine.calls.of(name);
}
