#include "testing/program_stream.h"

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_status.h"

namespace teraio::testing {
namespace {

class CudaProgramStream final : public ProgramStream {
 public:
  explicit CudaProgramStream(cudaStream_t stream) : stream_(stream) {}
  ~CudaProgramStream() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  void* handle() const override { return stream_; }
  Status copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes) override {
    return device::cuda_status(cudaMemcpyAsync(device, host, static_cast<size_t>(size_bytes),
                                               cudaMemcpyHostToDevice, stream_),
                               "copy on the program's stream");
  }

 private:
  const cudaStream_t stream_;
};

}  // namespace

Result<std::unique_ptr<ProgramStream>> make_program_stream() {
  TERAIO_RETURN_IF_ERROR(device::cuda_status(cudaSetDevice(0), "use GPU 0"));
  cudaStream_t stream = nullptr;
  TERAIO_RETURN_IF_ERROR(device::cuda_status(
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream"));
  return std::unique_ptr<ProgramStream>(std::make_unique<CudaProgramStream>(stream));
}

}  // namespace teraio::testing
