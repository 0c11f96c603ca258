#include "device/cuda/cuda_pool_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "device/cuda/cuda_status.h"

namespace teraio::device {
namespace {

class CudaPoolMemory final : public CudaMemorySource {
 public:
  CudaPoolMemory(cudaMemPool_t pool, std::function<cudaStream_t()> stream)
      : pool_(pool), stream_(std::move(stream)) {}
  ~CudaPoolMemory() override { cudaMemPoolDestroy(pool_); }

  void* allocate(int64_t size_bytes) override {
    void* memory = nullptr;
    const auto size = static_cast<size_t>(size_bytes);
    const cudaError_t error = cudaMallocFromPoolAsync(&memory, size, pool_, stream_());
    return has_succeeded(error) ? memory : nullptr;  // running out is an ordinary result
  }

  void release(void* memory) override { has_succeeded(cudaFreeAsync(memory, stream_())); }

  void set_limit_bytes(int64_t limit_bytes) override {
    cudaMemPoolTrimTo(pool_, static_cast<size_t>(std::max<int64_t>(limit_bytes, 0)));
  }

  int64_t reserved_bytes() const override { return attribute(cudaMemPoolAttrReservedMemCurrent); }
  int64_t reserved_peak_bytes() const override { return attribute(cudaMemPoolAttrReservedMemHigh); }
  void reset_peak() override {
    uint64_t zero = 0;
    cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &zero);
  }

 private:
  int64_t attribute(cudaMemPoolAttr which) const {
    uint64_t value = 0;
    cudaMemPoolGetAttribute(pool_, which, &value);
    return static_cast<int64_t>(value);
  }

  const cudaMemPool_t pool_;
  const std::function<cudaStream_t()> stream_;
};

}  // namespace

Result<std::unique_ptr<CudaMemorySource>> make_cuda_pool_memory(
    int32_t ordinal, std::function<cudaStream_t()> compute_stream) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  cudaMemPool_t pool = nullptr;
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaMemPoolCreate(&pool, &properties), "create a pool of memory"));
  // Keep freed memory for reuse, because returning it to the system costs more than a transfer.
  uint64_t kept_bytes = std::numeric_limits<uint64_t>::max();
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes);
  return std::unique_ptr<CudaMemorySource>(
      std::make_unique<CudaPoolMemory>(pool, std::move(compute_stream)));
}

}  // namespace teraio::device
