// What the emulated operators and the tests use of the emulated runtime, beside CUDA's own calls.
#pragma once

#include <functional>
#include <memory>

namespace teraio::testing::emulated_cuda {

// Enqueues `run` on `stream`, a cudaStream_t of the current device, as a kernel. `name` must live
// as long as the process. An exception from `run` is a failure of the device, which every later
// call returns. A graph may run it several times. Returns a cudaError_t. Threads: any.
__attribute__((visibility("default"))) int launch(void* stream, const char* name,
                                                  std::function<void()> run);

// What work of a stream can wait for and no stream does, such as a message of another process. The
// thread that works the streams off goes on with others meanwhile.
struct Point;
__attribute__((visibility("default"))) std::shared_ptr<Point> make_point();
// What is enqueued on `stream` from now on runs after pass_point(). Returns a cudaError_t.
// Threads: any.
__attribute__((visibility("default"))) int launch_wait(void* stream, const char* name,
                                                       std::shared_ptr<Point> point);
// A second call does nothing. Threads: any.
__attribute__((visibility("default"))) void pass_point(Point& point);

// Where the CPU finds what lies at a device address; an address of the host stays what it is.
__attribute__((visibility("default"))) void* shadow_of(const void* device_address);

}  // namespace teraio::testing::emulated_cuda
