// The units of a device that work at the same time, and how long their work lasts.
//
// A device with rates (settings.h) does real work in real time, at most at those rates: a kernel
// lasts as long as its arithmetic or as its bytes, whichever is longer, and a copy as long as its
// bytes on the link. Each unit does one piece of work at a time, in a thread of its own. Work whose
// data take longer on the CPU is late, which is counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/settings.h"

namespace teraio::testing::emulated_cuda {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// kNone: work that takes no unit, such as the record of an event.
enum class Unit { kNone, kCompute, kCopyIn, kCopyOut };

struct HardwareUnit {
  int32_t device = 0;
  Unit unit = Unit::kNone;
  TimePoint free_at;
  Duration busy{};  // sums of the work that is done
  Duration late{};
};

Duration kernel_duration(const Settings& settings, const Work& work);
// Of a copy between the host and a device.
Duration copy_duration(const Settings& settings, size_t size_bytes);

}  // namespace teraio::testing::emulated_cuda

// The time that a unit of the device ("compute", "copy in", "copy out") has worked, and for how
// much of it the CPU was slower than the device; without rates both are 0. Threads: any.
extern "C" __attribute__((visibility("default"))) void cudaEmulatedTimes(int device,
                                                                         const char* unit,
                                                                         uint64_t* busy_ns,
                                                                         uint64_t* late_ns);
