// Time on a device with rates: 1 GFLOP/s, 1 GB/s of memory, 100 MB/s to the host and from it.
// A slow machine makes work longer and never shorter, so that tests have lower bounds only, and
// ask for an order.
#include <algorithm>
#include <vector>

#include "cuda_emulation/machine_test.h"
#include "testing/cuda_emulation/hardware_unit.h"

namespace teraio::testing::emulated_cuda {
namespace {

constexpr size_t kCopyBytes = 2'000'000;  // takes 20 ms
constexpr double kCopyMs = 20;

class TimeTest : public MachineTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaMalloc(&device_, kCopyBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&host_, kCopyBytes), cudaSuccess);
  }
  void TearDown() override {
    MachineTest::TearDown();
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host_), cudaSuccess);
  }

  void copy(cudaStream_t stream, cudaMemcpyKind kind) {
    void* to = kind == cudaMemcpyHostToDevice ? device_ : host_;
    void* from = kind == cudaMemcpyHostToDevice ? host_ : device_;
    ASSERT_EQ(cudaMemcpyAsync(to, from, kCopyBytes, kind, stream), cudaSuccess);
  }
  static cudaEvent_t record(cudaStream_t stream) {
    const cudaEvent_t event = make_event(cudaEventDefault);
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    return event;
  }
  static double milliseconds_between(cudaEvent_t begin, cudaEvent_t end) {
    float milliseconds = 0;
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
    return milliseconds;
  }
  static double busy_milliseconds(const char* unit) {
    uint64_t busy_ns = 0, late_ns = 0;
    cudaEmulatedTimes(0, unit, &busy_ns, &late_ns);
    return static_cast<double>(busy_ns) / 1e6;
  }

 private:
  void* device_ = nullptr;
  void* host_ = nullptr;
};

// Rounding to nanoseconds and to float.
constexpr double kRoundingMs = 0.001;

TEST_F(TimeTest, AKernelLastsAsLongAsItsArithmeticOrItsBytes) {
  const cudaStream_t stream = make_stream();
  const std::vector<Work> works = {{20e6, 0}, {0, 20e6}, {1e6, 20e6}};
  for (const Work& work : works) {
    const cudaEvent_t begin = record(stream);
    ASSERT_EQ(launch(
                  stream, "test", [] {}, work),
              cudaSuccess);
    EXPECT_GE(milliseconds_between(begin, record(stream)), 20 - kRoundingMs);
  }
}

TEST_F(TimeTest, CopiesOfOneDirectionShareTheLink) {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const double busy_before = busy_milliseconds("copy out");
  const cudaEvent_t begin = record(first);
  copy(first, cudaMemcpyDeviceToHost);
  copy(second, cudaMemcpyDeviceToHost);
  const double on_first = milliseconds_between(begin, record(first));
  const double on_second = milliseconds_between(begin, record(second));
  EXPECT_GE(std::min(on_first, on_second), kCopyMs - kRoundingMs);
  EXPECT_GE(std::max(on_first, on_second), 2 * kCopyMs - kRoundingMs);
  EXPECT_GE(busy_milliseconds("copy out") - busy_before, 2 * kCopyMs - kRoundingMs);
}

// Each unit has a thread of its own: this would hang otherwise.
TEST_F(TimeTest, CopiesOfBothDirectionsRunBesideAKernel) {
  const cudaStream_t compute = make_stream();
  const cudaStream_t in = make_stream();
  const cudaStream_t out = make_stream();
  close_gate(compute);
  copy(in, cudaMemcpyHostToDevice);
  copy(out, cudaMemcpyDeviceToHost);
  EXPECT_EQ(cudaStreamSynchronize(in), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(out), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(compute), cudaErrorNotReady);
  open_gate();
}

TEST_F(TimeTest, WorkBeginsWhenWhatItWaitsForHasEnded) {
  const cudaStream_t compute = make_stream();
  const cudaStream_t out = make_stream();
  const cudaEvent_t begin = record(compute);
  ASSERT_EQ(launch(compute, "test", [] {}, {20e6, 0}), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(out, record(compute), 0), cudaSuccess);
  copy(out, cudaMemcpyDeviceToHost);
  EXPECT_GE(milliseconds_between(begin, record(out)), 20 + kCopyMs - kRoundingMs);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
