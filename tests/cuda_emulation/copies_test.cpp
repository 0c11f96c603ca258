// When copies read and write, by the kind of host memory; and errors of the device.
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

class CopiesTest : public MachineTest {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_EQ(cudaMalloc(&memory_, kMiB), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(&pinned_, kMiB, 0), cudaSuccess);
  }
  void TearDown() override {
    open_gate();
    cudaFree(memory_);
    cudaFreeHost(pinned_);
    MachineTest::TearDown();
  }
  char first_byte() {
    char byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, memory_, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return byte;
  }

  void* memory_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_F(CopiesTest, PinnedMemoryIsReadWhenTheCopyRuns) {
  const cudaStream_t stream = make_stream();
  std::memset(pinned_, 1, kMiB);
  close_gate(stream);
  ASSERT_EQ(cudaMemcpyAsync(memory_, pinned_, kMiB, cudaMemcpyHostToDevice, stream), cudaSuccess);
  std::memset(pinned_, 2, kMiB);
  open_gate();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(first_byte(), 2);
}

TEST_F(CopiesTest, PageableMemoryIsReadBeforeTheCallReturns) {
  const cudaStream_t stream = make_stream();
  std::vector<char> host(kMiB, 1);
  close_gate(stream);
  ASSERT_EQ(cudaMemcpyAsync(memory_, host.data(), kMiB, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  std::memset(host.data(), 2, kMiB);
  open_gate();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(first_byte(), 1);
}

TEST_F(CopiesTest, ACopyMayNotCrossPinnedRegions) {
  std::vector<char> host(kMiB);
  ASSERT_EQ(cudaHostRegister(host.data(), kMiB / 2, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory_, host.data(), kMiB, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  ASSERT_EQ(cudaHostRegister(host.data() + kMiB / 2, kMiB / 2, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory_, host.data(), kMiB, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory_, host.data(), kMiB / 2, cudaMemcpyHostToDevice), cudaSuccess);
  cudaHostUnregister(host.data());
  cudaHostUnregister(host.data() + kMiB / 2);
}

// In a process of its own: the failure stays.
TEST_F(CopiesTest, AFailureOfTheDeviceSticks) {
  const auto fail = [&] {
    launch(nullptr, "kernel", [] { throw std::runtime_error("an assertion"); });
    if (cudaDeviceSynchronize() != cudaErrorLaunchFailure) std::exit(1);
    void* more = nullptr;
    if (cudaMalloc(&more, kMiB) != cudaErrorLaunchFailure) std::exit(2);
    if (cudaMemcpy(memory_, pinned_, 1, cudaMemcpyDefault) != cudaErrorLaunchFailure) std::exit(3);
    if (cudaGetLastError() != cudaErrorLaunchFailure) std::exit(4);
    if (cudaGetLastError() != cudaErrorLaunchFailure) std::exit(5);
    std::_Exit(0);
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(0), "kernel failed: an assertion");
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
