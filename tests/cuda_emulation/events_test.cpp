#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

using EventsTest = MachineTest;

TEST_F(EventsTest, OneThatWasNeverRecordedHasPassed) {
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(make_stream(), event, 0), cudaSuccess);
  cudaEventDestroy(event);
}

TEST_F(EventsTest, PassesWhenTheWorkBeforeItIsDone) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  bool is_done = false;
  close_gate(stream);
  run_on(stream, [&] { is_done = true; });
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "as CUDA remembers it";
  open_gate();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_TRUE(is_done);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event);
}

TEST_F(EventsTest, IsRecordedByStreamsOfItsDeviceAndWaitedForByAny) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t elsewhere = make_stream();
  EXPECT_EQ(cudaEventRecord(event, elsewhere), cudaErrorInvalidResourceHandle);
  close_gate(stream);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(elsewhere, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(elsewhere), cudaErrorNotReady);
  open_gate();
  EXPECT_EQ(cudaStreamSynchronize(elsewhere), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(EventsTest, StandsForItsLastRecord) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  close_gate(stream);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  open_gate();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  cudaEventDestroy(event);
}

TEST_F(EventsTest, TimeNeedsEventsThatHaveItAndHavePassed) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t begin = make_event(cudaEventDefault);
  const cudaEvent_t end = make_event(cudaEventDefault);
  const cudaEvent_t without_time = make_event();
  float milliseconds = -1;
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  close_gate(stream);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(without_time, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  open_gate();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, without_time),
            cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {begin, end, without_time}) cudaEventDestroy(event);
}

TEST_F(EventsTest, ADestroyedOneIsRefused) {
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
