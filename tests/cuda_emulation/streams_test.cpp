// The order of work on streams.
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

TEST_F(StreamsTest, ANonBlockingStreamGoesItsOwnWay) {
  const cudaStream_t stream = make_stream();
  EXPECT_GT(times_reversed(cudaStreamLegacy, stream) + times_reversed(stream, cudaStreamLegacy), 0);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
