#include "testing/cuda_emulation/hardware_unit.h"

#include <algorithm>
#include <string_view>

#include "testing/cuda_emulation/machine.h"

namespace teraio::testing::emulated_cuda {
namespace {

Duration duration_of(double amount, double per_second) {
  if (per_second <= 0) return {};
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(amount / per_second));
}

Unit unit_named(std::string_view name) {
  if (name == "compute") return Unit::kCompute;
  if (name == "copy in") return Unit::kCopyIn;
  return name == "copy out" ? Unit::kCopyOut : Unit::kNone;
}

uint64_t nanoseconds(Duration duration) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(duration).count());
}

}  // namespace

Duration kernel_duration(const Settings& settings, const Work& work) {
  return std::max(duration_of(work.flops, settings.flops_per_second),
                  duration_of(work.memory_bytes, settings.memory_bytes_per_second));
}

Duration copy_duration(const Settings& settings, size_t size_bytes) {
  return duration_of(static_cast<double>(size_bytes), settings.link_bytes_per_second);
}

}  // namespace teraio::testing::emulated_cuda

extern "C" void cudaEmulatedTimes(int device, const char* unit, uint64_t* busy_ns,
                                  uint64_t* late_ns) {
  using namespace teraio::testing::emulated_cuda;
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  const HardwareUnit* found = machine.executor.find_unit(device, unit_named(unit));
  *busy_ns = found == nullptr ? 0 : nanoseconds(found->busy);
  *late_ns = found == nullptr ? 0 : nanoseconds(found->late);
}
