// CudaDevice: a GPU's memory under a hard budget, and the order of work on the GPU.
//
// The memory is an Arena of its own, mapped by CUDA's virtual memory management. Pages are mapped
// when the arena grows; otherwise allocate() and release() make no call of CUDA.
//
// Compute runs on the caller's streams. Copies run on streams that the device owns, a few for each
// direction, so that a copy which waits for compute holds up none that waits for less
// (cuda/copy_order.h). Compute and copies wait for each other through events, so nothing
// synchronizes the whole GPU.
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

// Another allocator of the same GPU's memory, which shares the device's budget: in a training run
// PyTorch's caching allocator.
//
// Threads: as Device::allocate.
class FrameworkAllocator {
 public:
  virtual ~FrameworkAllocator() = default;
  // The GPU memory that it holds, in use or cached for reuse.
  virtual int64_t held_bytes() const = 0;
  // Since the last reset_peak(), as far as it knows: at least what it holds now.
  virtual int64_t held_peak_bytes() const = 0;
  virtual void reset_peak() = 0;
  // A limit that others have set on what both hold, as far as this allocator knows one. It stays in
  // force while the device has a budget.
  virtual int64_t common_limit_bytes() const { return kNoBudget; }
  // It takes no more memory than that from now on. What it holds beyond stays.
  virtual void set_limit_bytes(int64_t limit_bytes) = 0;
  // Returns what it has cached to CUDA, which waits for the GPU. False: nothing can be returned.
  virtual bool give_back() = 0;
  // Told what the device has allocated and what it holds, when one of them has changed.
  virtual void note_device_bytes(int64_t allocated_bytes, int64_t held_bytes) = 0;
};

struct CudaDeviceOptions {
  int32_t ordinal = 0;
  int64_t budget_bytes = 0;
  // Returns the stream (a cudaStream_t) on which the calling thread enqueues compute. If empty, the
  // device uses a stream of its own, on which nothing else is enqueued.
  std::function<void*()> compute_stream = {};
  // What it holds counts against the budget. Null: the device shares its budget with nobody.
  std::unique_ptr<FrameworkAllocator> framework = nullptr;
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
Result<std::unique_ptr<Device>> make_cuda_device(CudaDeviceOptions options);

}  // namespace teraio::device
