// The order of work on streams.
#include <atomic>
#include <thread>

#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

constexpr int kAttempts = 30;

class StreamsTest : public MachineTest {
 protected:
  // Work on `first` and then on `second`, of which only `order` says that it comes later. Returns
  // how often it came first.
  template <typename Order>
  int times_reversed(cudaStream_t first, cudaStream_t second, Order order) {
    int count = 0;
    for (int i = 0; i < kAttempts; ++i) {
      bool is_first_done = false;
      bool came_first = false;
      run_on(first, [&] { is_first_done = true; });
      order();
      run_on(second, [&] { came_first = !is_first_done; });
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      count += came_first;
    }
    return count;
  }
  int times_reversed(cudaStream_t first, cudaStream_t second) {
    return times_reversed(first, second, [] {});
  }
};

TEST_F(StreamsTest, WorkOfOneStreamRunsInOrder) {
  const cudaStream_t stream = make_stream();
  EXPECT_EQ(times_reversed(stream, stream), 0);
}

// The negative control of the tests below: without a wait the order is another one, by seed.
TEST_F(StreamsTest, WorkOfTwoStreamsRunsInAnyOrder) {
  EXPECT_GT(times_reversed(make_stream(), make_stream()), 0);
}

TEST_F(StreamsTest, AStreamWaitsForAnEvent) {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const cudaEvent_t event = make_event();
  const int count = times_reversed(first, second, [&] {
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  });
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(StreamsTest, AWaitOutlivesItsEvent) {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const int count = times_reversed(first, second, [&] {
    const cudaEvent_t event = make_event();
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  });
  EXPECT_EQ(count, 0);
}

TEST_F(StreamsTest, TheLegacyStreamIsInOrderWithThoseThatSynchronizeWithIt) {
  const cudaStream_t stream = make_stream(cudaStreamDefault);
  EXPECT_EQ(times_reversed(stream, cudaStreamLegacy), 0);
  EXPECT_EQ(times_reversed(cudaStreamLegacy, stream), 0);
  EXPECT_EQ(times_reversed(stream, nullptr), 0);
  EXPECT_EQ(times_reversed(cudaStreamPerThread, cudaStreamLegacy), 0);
}

TEST_F(StreamsTest, ANonBlockingStreamGoesItsOwnWay) {
  const cudaStream_t stream = make_stream();
  EXPECT_GT(times_reversed(cudaStreamLegacy, stream) + times_reversed(stream, cudaStreamLegacy), 0);
}

TEST_F(StreamsTest, EachThreadHasItsOwnDefaultStream) {
  int count = 0;
  for (int i = 0; i < kAttempts; ++i) {
    bool is_first_done = false;
    run_on(cudaStreamPerThread, [&] { is_first_done = true; });
    std::thread([&] { run_on(cudaStreamPerThread, [&] { count += !is_first_done; }); }).join();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  EXPECT_GT(count, 0);
}

TEST_F(StreamsTest, ADestroyedStreamDoesItsWork) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  close_gate(stream);
  bool has_run = false;
  run_on(stream, [&] { has_run = true; });
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess) << "it does not wait";
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  open_gate();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(has_run);
}

TEST_F(StreamsTest, WhatIsNoStreamIsRefused) {
  int number = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&number);
  EXPECT_EQ(launch(stream, "test", [] {}), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

// The queue holds 8 (CMakeLists.txt): the work that runs, and seven more.
TEST_F(StreamsTest, ALaunchBlocksWhileTheQueueIsFull) {
  const cudaStream_t stream = make_stream();
  std::atomic<int> launched_count = 0;
  int launched_at_gate = 0;
  std::atomic<bool> is_open = false;
  run_on(stream, [&] {
    is_open.wait(false);
    launched_at_gate = launched_count;
  });
  std::thread launcher([&] {
    for (int i = 0; i < 20; ++i) {
      run_on(stream, [] {});
      launched_count = i + 1;
      launched_count.notify_all();
    }
  });
  for (int count = 0; count < 7; count = launched_count) launched_count.wait(count);
  is_open = true;
  is_open.notify_all();
  launcher.join();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(launched_at_gate, 7);
}

TEST_F(StreamsTest, DevicesHaveStreamsOfTheirOwn) {
  close_gate(nullptr);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  // Device 0 is not waited for. One thread does the work of all devices, so that none is launched.
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  open_gate();
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
