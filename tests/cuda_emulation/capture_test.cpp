#include <thread>

#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

class CaptureTest : public MachineTest {
 protected:
  void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
  static cudaError_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error;
  }
};

TEST_F(CaptureTest, WorkIsDoneWhenTheGraphRunsAndAgainEachTime) {
  const cudaStream_t stream = make_stream();
  int count = 0;
  begin(stream);
  run_on(stream, [&] { ++count; });
  run_on(stream, [&] { count *= 10; });
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(count, 0);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(count, 110);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(CaptureTest, AStreamThatWaitsForACapturedEventJoins) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t other = make_stream();
  const cudaEvent_t event = make_event();
  begin(stream);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(status_of(other), cudaStreamCaptureStatusNone);
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  EXPECT_EQ(status_of(other), cudaStreamCaptureStatusActive);
  EXPECT_EQ(end(stream), cudaSuccess);
  EXPECT_EQ(status_of(other), cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  cudaEventDestroy(event);
}

TEST_F(CaptureTest, WaitingOrLookingBreaksIt) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  begin(stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  begin(stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  cudaEventDestroy(event);
}

// PyTorch captures in this mode: a query of another thread breaks the capture, unless that thread
// has said that it is none of the capture's business.
TEST_F(CaptureTest, AnotherThreadBreaksAGlobalOne) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  const auto query = [&](cudaStreamCaptureMode mode) {
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      cudaThreadExchangeStreamCaptureMode(&mode);
      error = cudaEventQuery(event);
    }).join();
    return error;
  };
  begin(stream);
  EXPECT_EQ(query(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(query(cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusActive);
  EXPECT_EQ(query(cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  begin(stream, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(query(cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(end(stream), cudaSuccess);
  cudaEventDestroy(event);
}

TEST_F(CaptureTest, TheLegacyStreamCannotBeCaptured) {
  EXPECT_EQ(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
