// Memory of the devices and of the host.
#include <cuda.h>

#include <csignal>

#include "cuda_emulation/machine_test.h"
#include "testing/cuda_emulation/call_counts.h"

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
  static size_t free_bytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    EXPECT_EQ(total_bytes, kDeviceBytes);
    return free_bytes;
  }
  static cudaMemoryType type_of(const void* address) {
    cudaPointerAttributes attributes = {};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
    return attributes.type;
  }
};

TEST_F(MemoryTest, ADeviceHasALimit) {
  void* first = allocate(40 * kMiB);
  void* second = nullptr;
  EXPECT_EQ(cudaMalloc(&second, 40 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the device goes on";
  EXPECT_EQ(free_bytes(), 24 * kMiB);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(free_bytes(), kDeviceBytes) << "each device has its own";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  second = allocate(kDeviceBytes);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaErrorInvalidValue) << "twice";
}

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

TEST_F(MemoryTest, FreeWaitsForTheDevice) {
  const cudaStream_t stream = make_stream();
  void* memory = allocate(kMiB);
  bool is_done = false;
  run_on(stream, [&] { is_done = true; });
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_TRUE(is_done);
}

TEST_F(MemoryTest, CopiesBeyondAnAllocationAreRefused) {
  char* memory = static_cast<char*>(allocate(2 * kMiB));
  char byte = 0;
  EXPECT_EQ(cudaMemcpy(&byte, memory + 2 * kMiB, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(memory + 2 * kMiB - 1, 0, 2), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue) << "freed";
}

TEST_F(MemoryTest, WhatAnAddressIs) {
  char* memory = static_cast<char*>(allocate(kMiB));
  std::vector<char> host(4096);
  EXPECT_EQ(type_of(memory + 1), cudaMemoryTypeDevice);
  EXPECT_EQ(type_of(host.data()), cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(host.data(), host.size(), 0), cudaSuccess);
  EXPECT_EQ(type_of(host.data()), cudaMemoryTypeHost);
  ASSERT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(type_of(host.data()), cudaMemoryTypeUnregistered);
  cudaFree(memory);
}

// 8 MiB can be pinned (CMakeLists.txt).
TEST_F(MemoryTest, PinningMayBeRefused) {
  std::vector<char> host(9 * kMiB);
  EXPECT_EQ(cudaHostRegister(host.data(), 9 * kMiB, 0), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaHostRegister(host.data(), 8 * kMiB, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host.data() + kMiB, kMiB, 0), cudaErrorHostMemoryAlreadyRegistered);
  void* more = nullptr;
  EXPECT_EQ(cudaHostAlloc(&more, 4096, 0), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
  ASSERT_EQ(cudaHostAlloc(&more, 4096, 0), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(more), cudaSuccess);
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

// What expandable segments are made of.
TEST_F(MemoryTest, VirtualMemory) {
  const auto find = [](const char* name) {
    void* function = nullptr;
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, 13000, 0, nullptr), cudaSuccess);
    return function;
  };
  const auto reserve =
      reinterpret_cast<decltype(&cuMemAddressReserve)>(find("cuMemAddressReserve"));
  const auto create = reinterpret_cast<decltype(&cuMemCreate)>(find("cuMemCreate"));
  const auto map = reinterpret_cast<decltype(&cuMemMap)>(find("cuMemMap"));
  const auto unmap = reinterpret_cast<decltype(&cuMemUnmap)>(find("cuMemUnmap"));
  const auto release = reinterpret_cast<decltype(&cuMemRelease)>(find("cuMemRelease"));
  CUdeviceptr begin = 0;
  ASSERT_EQ(reserve(&begin, 1024 * kMiB, 0, 0, 0), CUDA_SUCCESS) << "addresses cost nothing";
  CUmemAllocationProp properties = {};
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(create(&handle, kDeviceBytes + 2 * kMiB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(create(&handle, 2 * kMiB, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(map(begin + i * 2 * kMiB, 2 * kMiB, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(release(handle), CUDA_SUCCESS);
  }
  EXPECT_EQ(free_bytes(), kDeviceBytes - 4 * kMiB);
  char* memory = reinterpret_cast<char*>(begin);
  EXPECT_EQ(cudaMemset(memory, 7, 4 * kMiB), cudaSuccess) << "across pieces side by side";
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(unmap(begin, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), kDeviceBytes);
  EXPECT_EQ(cudaMemset(memory, 7, 1), cudaErrorInvalidValue);
  const auto free_addresses =
      reinterpret_cast<decltype(&cuMemAddressFree)>(find("cuMemAddressFree"));
  EXPECT_EQ(free_addresses(begin, 1024 * kMiB), CUDA_SUCCESS);
}

TEST_F(MemoryTest, APoolUsesFreedMemoryAgainInItsOrder) {
  const cudaStream_t stream = make_stream();
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&first, kMiB, pool, stream), cudaSuccess);
  close_gate(stream);
  ASSERT_EQ(cudaFreeAsync(first, stream), cudaSuccess);
  ASSERT_EQ(cudaMallocFromPoolAsync(&second, kMiB, pool, stream), cudaSuccess);
  EXPECT_NE(first, second) << "it is not free yet";
  open_gate();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  void* third = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&third, kMiB, pool, stream), cudaSuccess);
  EXPECT_EQ(third, first);
  cudaFreeAsync(second, stream);
  cudaFreeAsync(third, stream);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(free_bytes(), kDeviceBytes - 4 * kMiB) << "the pool keeps it";
  ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  EXPECT_EQ(free_bytes(), kDeviceBytes);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST_F(MemoryTest, CallsThatCostTimeAreCounted) {
  const uint64_t before = cudaEmulatedCalls("cudaFree");
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kMiB), cudaSuccess);
  EXPECT_EQ(cudaEmulatedCalls("cudaFree"), before);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaEmulatedCalls("cudaFree"), before + 1);
  EXPECT_EQ(cudaEmulatedCalls("no function"), 0u);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
