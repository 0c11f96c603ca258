#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

class CaptureTest : public MachineTest {
 protected:
  void begin(cudaStream_t stream) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
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

}  // namespace
}  // namespace teraio::testing::emulated_cuda
