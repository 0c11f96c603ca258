// What the environment says of the emulated machine (README.md lists the variables).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace teraio::testing::emulated_cuda {

struct Settings {
  int32_t device_count = 1;
  size_t memory_bytes = size_t{4} << 30;       // of each device
  size_t pinnable_bytes = SIZE_MAX;            // host memory beyond it is refused
  size_t granularity_bytes = size_t{2} << 20;  // of memory that is mapped (cuMemCreate)
  bool registers_host = true;                  // cudaHostRegister works
  size_t launch_queue_length = 1024;           // of a stream; a call blocks when it is full
  uint64_t seed = 0;                           // 0: work runs in the order of its submission
  bool is_lazy = false;                        // work runs when a thread waits or looks
  bool poisons = false;                        // new memory is full of 0xFF, which is NaN
  bool has_units = false;  // compute and copies in each direction have a thread each
  // A negative control: cudaStreamWaitEvent does nothing in libraries and programs whose file name
  // contains this.
  std::string forgets_waits_of;
};

// Ends the process with a message when a variable has no value of its kind.
Settings read_settings();

}  // namespace teraio::testing::emulated_cuda
