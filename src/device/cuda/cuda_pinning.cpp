#include "device/cuda/cuda_pinning.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/units.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/current_device.h"
#include "device/cuda/outside_of_capture.h"

namespace teraio::device {
namespace {

constexpr int64_t kPinnedPartBytes = kGiB;

}  // namespace

Status CudaPinning::pin(std::byte* host, int64_t size_bytes) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(ordinal_);
  {
    const std::lock_guard lock(mutex_);
    pinned_[host] = size_bytes;
  }
  for (int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += kPinnedPartBytes) {
    const auto part_bytes =
        static_cast<size_t>(std::min(kPinnedPartBytes, size_bytes - done_bytes));
    const Status status =
        cuda_status(cudaHostRegister(host + done_bytes, part_bytes, cudaHostRegisterPortable),
                    done_bytes == 0 ? "pin host memory"
                                    : fmt::format("pin host memory, of which {} are pinned by now",
                                                  format_size(done_bytes)));
    if (!status.ok()) return status;  // copies work without pinning
  }
  return {};
}

void CudaPinning::unpin(std::byte* host) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(ordinal_);
  int64_t size_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto node = pinned_.extract(host);
    if (node.empty()) return;
    size_bytes = node.mapped();
  }
  // Of parts that could not be pinned, it fails.
  for (int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += kPinnedPartBytes)
    has_succeeded(cudaHostUnregister(host + done_bytes));
}

std::byte* CudaPinning::allocate(int64_t size_bytes) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(ordinal_);
  void* host = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&host, static_cast<size_t>(size_bytes), cudaHostAllocPortable);
  return has_succeeded(error) ? static_cast<std::byte*>(host) : nullptr;
}

void CudaPinning::free(std::byte* host) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(ordinal_);
  has_succeeded(cudaFreeHost(host));
}

int64_t CudaPinning::bytes_until_part_ends(const std::byte* host) const {
  const std::lock_guard lock(mutex_);
  const auto next = pinned_.upper_bound(host);
  if (next == pinned_.begin()) return std::numeric_limits<int64_t>::max();
  const auto& [begin, size_bytes] = *std::prev(next);
  const int64_t offset_bytes = host - begin;
  if (offset_bytes >= size_bytes) return std::numeric_limits<int64_t>::max();
  return kPinnedPartBytes - offset_bytes % kPinnedPartBytes;
}

}  // namespace teraio::device
