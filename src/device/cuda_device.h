// CudaDevice: a GPU's memory under a hard budget, and the order of work on the GPU.
//
// Compute runs on the caller's streams. Copies run on two streams that the device owns, one per
// direction. Compute and copies wait for each other through events, so nothing synchronizes the
// whole GPU.
//
// This header is implemented where CMake finds a CUDA runtime (cmake/Cuda.cmake): that of the
// PyTorch wheel, which the extension then shares with PyTorch, or that of a toolkit. The runtime
// loads the driver on its first use, so that the same program starts on machines without a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace teraio::device {

// The source of a CudaDevice's memory. In a training run it is PyTorch's caching allocator, so that
// both use one pool. Without PyTorch it is CUDA's stream-ordered pool.
//
// Threads: as Device.
class CudaMemorySource {
 public:
  virtual ~CudaMemorySource() = default;
  // Returns memory that is valid in compute order and aligned to at least 256 bytes, or nullptr if
  // there is none left that can be had without waiting for the GPU.
  virtual void* allocate(int64_t size_bytes) = 0;
  // Likewise, but nullptr only if there is none left at all.
  virtual void* allocate_at_all_costs(int64_t size_bytes) { return allocate(size_bytes); }
  virtual void release(void* memory) = 0;
  // Keeps the memory that the source holds below the limit, as far as it can. Both sources return
  // free memory when they hold more; afterwards, PyTorch's allocator obtains no more than the
  // limit.
  virtual void set_limit_bytes(int64_t limit_bytes) = 0;
  // The GPU memory that the source holds, in use or cached for reuse.
  virtual int64_t reserved_bytes() const = 0;
  // Since the last reset_peak(), as far as the source knows: at least what it holds now.
  virtual int64_t reserved_peak_bytes() const = 0;
  virtual void reset_peak() = 0;
  // As Device::segments().
  virtual MemorySegments* segments() { return nullptr; }
};

class CudaDevice : public Device {
 public:
  // Returns the source's block that contains `memory`, which came from this device and was not
  // released. Any thread.
  virtual void* source_block(const std::byte* memory) const = 0;
};

struct CudaDeviceOptions {
  int32_t ordinal = 0;
  int64_t budget_bytes = 0;
  // Returns the stream (a cudaStream_t) on which the calling thread enqueues compute. If empty, the
  // device uses a stream of its own, on which nothing else is enqueued.
  std::function<void*()> compute_stream = {};
  // If null, the device creates a stream-ordered pool.
  std::unique_ptr<CudaMemorySource> memory = nullptr;
};

struct CudaFacts {
  std::string model;
  std::string pci_address;  // "0000:17:00.0"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // at the time of the call
};

// Describes the GPU with this ordinal. Returns kUnsupported, with the reason, if the build has no
// CUDA, if there is no driver, or if the process does not see such a GPU. Any other failure is that
// of a CUDA call.
Result<CudaFacts> inspect_cuda_device(int32_t ordinal);

// Fails like inspect_cuda_device().
Result<std::unique_ptr<CudaDevice>> make_cuda_device(CudaDeviceOptions options);

}  // namespace teraio::device
