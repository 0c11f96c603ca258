// CudaPinning: host memory that a GPU copies to and from.
//
// Large ranges are pinned in parts: what the system refuses costs one part and not all of it.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "device/host_pinning.h"

namespace teraio::device {

class CudaPinning final : public HostPinning {
 public:
  explicit CudaPinning(int32_t ordinal) : ordinal_(ordinal) {}

  Status pin(std::byte* host, int64_t size_bytes) override;
  void unpin(std::byte* host) override;
  std::byte* allocate(int64_t size_bytes) override;
  void free(std::byte* host) override;

  // How much one copy may move from or to this address: one that goes on from one part into the
  // next is an error to CUDA.
  int64_t bytes_until_part_ends(const std::byte* host) const;

 private:
  const int32_t ordinal_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, int64_t> pinned_;  // sizes of ranges, by their begin
};

}  // namespace teraio::device
