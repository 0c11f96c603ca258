// Wrong uses of memory that the emulation refuses or shows.
#include <csignal>

#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

class MemoryTest : public MachineTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void* allocate(size_t size_bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, size_bytes), cudaSuccess);
    return memory;
  }
};

TEST_F(MemoryTest, NewMemoryIsPoisoned) {
  void* memory = allocate(kMiB);
  unsigned char byte = 0;
  ASSERT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(byte, 0xFF);
  cudaFree(memory);
}

TEST_F(MemoryTest, TheHostCannotTouchADeviceAddress) {
  void* memory = allocate(kMiB);
  EXPECT_EXIT(*static_cast<volatile char*>(memory) = 1, ::testing::KilledBySignal(SIGSEGV), "");
  cudaFree(memory);
}

TEST_F(MemoryTest, CopiesBeyondAnAllocationAreRefused) {
  char* memory = static_cast<char*>(allocate(2 * kMiB));
  char byte = 0;
  EXPECT_EQ(cudaMemcpy(&byte, memory + 2 * kMiB, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(memory + 2 * kMiB - 1, 0, 2), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue) << "freed";
}

TEST_F(MemoryTest, UnpinningUnderAPendingCopyEndsTheProgram) {
  void* memory = allocate(kMiB);
  const auto unpin_too_early = [&] {
    const cudaStream_t stream = make_stream();
    std::vector<char> host(kMiB);
    cudaHostRegister(host.data(), host.size(), 0);
    close_gate(stream);
    cudaMemcpyAsync(host.data(), memory, kMiB, cudaMemcpyDeviceToHost, stream);
    cudaHostUnregister(host.data());
  };
  EXPECT_EXIT(unpin_too_early(), ::testing::KilledBySignal(SIGABRT),
              "VIOLATION: cudaHostUnregister");
  cudaFree(memory);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
