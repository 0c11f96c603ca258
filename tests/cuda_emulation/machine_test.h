// What the tests of the emulated machine share: they check that it shows wrong uses, without which
// the tests on it would pass by mistake. CTest runs them by several seeds, with lazy
// execution and poison, on two devices of 64 MiB (CMakeLists.txt).
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "testing/cuda_emulation/launch.h"

namespace teraio::testing::emulated_cuda {

inline constexpr size_t kMiB = size_t{1} << 20;

class MachineTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaGetLastError();
  }

  cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    streams_.push_back(stream);
    return stream;
  }
  static cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  static void run_on(cudaStream_t stream, std::function<void()> run) {
    ASSERT_EQ(launch(stream, "test", std::move(run)), cudaSuccess);
  }
  // The stream does nothing more until open_gate().
  void close_gate(cudaStream_t stream) {
    gate_is_open_ = false;
    run_on(stream, [this] { gate_is_open_.wait(false); });
  }
  void open_gate() {
    gate_is_open_ = true;
    gate_is_open_.notify_all();
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::atomic<bool> gate_is_open_ = true;
};

}  // namespace teraio::testing::emulated_cuda
