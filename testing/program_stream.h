// ProgramStream: a stream of a program on a GPU, beside those of a CudaDevice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace teraio::testing {

// Threads: one at a time.
class ProgramStream {
 public:
  virtual ~ProgramStream() = default;  // waits for the stream
  // A cudaStream_t that does not block.
  virtual void* handle() const = 0;
  // Enqueues a copy to the device. Both buffers must stay valid until it has been done.
  virtual Status copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes) = 0;
};

// Makes a stream on GPU 0. Fails with kUnsupported where the build has no CUDA.
Result<std::unique_ptr<ProgramStream>> make_program_stream();

}  // namespace teraio::testing
