// CudaDevice: a GPU's memory under a hard budget, and the order of work on it.
//
// Compute runs on the caller's streams. Copies run on two streams of the device's own, one for each
// way, which wait for events of compute and are waited for by events: nothing synchronizes the
// device. Built where a CUDA toolkit is found (TERAIO_CUDA); the runtime library is linked
// statically and finds the driver when it is first used, so that the same program starts on
// machines without a GPU and does not mind which libcudart PyTorch has loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace teraio::device {

// Where a CudaDevice takes its memory from: in a run PyTorch's caching allocator, so that there is
// one pool; alone, CUDA's.
//
// Threads: as Device's.
class CudaMemorySource {
 public:
  virtual ~CudaMemorySource() = default;
  // In compute order, aligned to 256 bytes at least; nullptr when there is no more.
  virtual void* allocate(int64_t size_bytes) = 0;
  virtual void release(void* memory) = 0;
  // It holds no more than this from the GPU from now on, where that is possible.
  virtual void set_limit_bytes(int64_t limit_bytes) = 0;
  // Of the GPU's memory, used or kept for reuse.
  virtual int64_t reserved_bytes() const = 0;
  virtual int64_t reserved_peak_bytes() const = 0;
  virtual void reset_peak() = 0;
  // As Device's.
  virtual MemorySegments* segments() { return nullptr; }
};

class CudaDevice : public Device {
 public:
  // The block of the source that holds `memory`, which this device has handed out. Any thread.
  virtual void* source_block(const std::byte* memory) const = 0;
};

struct CudaDeviceOptions {
  int32_t ordinal = 0;
  int64_t budget_bytes = 0;
  // The stream (a cudaStream_t) to which the calling thread sends compute. Empty: one of the
  // device's own, which has none.
  std::function<void*()> compute_stream = {};
  // Null: CUDA's stream-ordered pool.
  std::unique_ptr<CudaMemorySource> memory = nullptr;
};

struct CudaFacts {
  std::string model;
  std::string pci_address;  // "0000:17:00.0"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // now
};

// kUnsupported, with the reason, in a build without CUDA, and without a driver or such a GPU.
Result<CudaFacts> inspect_cuda_device(int32_t ordinal);

// Failures as above.
Result<std::unique_ptr<CudaDevice>> make_cuda_device(CudaDeviceOptions options);

}  // namespace teraio::device
