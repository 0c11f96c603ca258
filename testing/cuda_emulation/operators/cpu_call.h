// Running the CPU's kernels in the order of the device's streams.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>

#include "testing/cuda_emulation/launch.h"

namespace teraio::testing::emulated_cuda {

// While it lives, nothing above the kernels sees what this thread calls: neither autograd nor
// autocast, nor hooks of the program.
class BelowAutograd {
 public:
  BelowAutograd();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  at::DisableRecordFunctionGuard records_;
  at::NoGradGuard gradients_;
};

// Enqueues `run` on the stream, as a kernel. An exception is a failure of the device.
void run_in_order(c10::cuda::CUDAStream stream, const char* name, std::function<void()> run);

// Likewise, and waits for it. An exception is the caller's.
void run_and_wait(c10::cuda::CUDAStream stream, const char* name, std::function<void()> run);

// A generator for an operator that runs later, by the state of the device's. `given` is the
// operator's argument; a generator of the CPU is returned as it is.
at::Generator cpu_generator(const std::optional<at::Generator>& given, c10::Device device);

}  // namespace teraio::testing::emulated_cuda
