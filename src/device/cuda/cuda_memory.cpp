#include "device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/units.h"
#include "device/cuda/cuda_status.h"

namespace teraio::device {
namespace {

// Pages of the GPU are the granules of the pool. The driver takes the same time to move one
// whatever its size; small ones waste less beside blocks. With 300 to 500 pages, trainings had 1 to
// 8 % of their memory in parts of pages, and moved a tenth of the pages that they moved with 3,000
// to 5,000 (docs/decisions/002-pages-of-a-gpu.md). The driver's least size is 2 MiB.
constexpr int64_t kPageCount = 256;
constexpr int64_t kMostPageBytes = 32 * kMiB;

// Parts of about as many pages lay unused in the trainings above, of more where tensors are small.
// The share is for limits of few pages.
constexpr int64_t kSparePages = 12;
constexpr int64_t kLeastSpareShares = 32;

// Below a few pages nothing could be allocated, so that a smaller budget limits blocks alone.
constexpr int64_t kLeastPages = 8;
// PyTorch's caching allocator takes memory in segments of 20 MiB, separate ones for each stream,
// and FSDP2 uses three streams.
constexpr int64_t kLeastSharedLimitBytes = 96 * kMiB;

// Addresses cost no memory. The range leaves room for stitching and for a larger budget later.
constexpr int64_t kAddressesPerByte = 4;
// No GPU has more. Sums of limits cannot overflow.
constexpr int64_t kMostLimitBytes = int64_t{1} << 60;

int64_t page_bytes(int64_t limit_bytes) {
  const uint64_t wanted_bytes = std::clamp(limit_bytes / kPageCount, kPageBytes, kMostPageBytes);
  return static_cast<int64_t>(std::bit_floor(wanted_bytes));
}

}  // namespace

Result<std::unique_ptr<CudaMemory>> CudaMemory::make(
    int32_t ordinal, int64_t limit_bytes, std::unique_ptr<NeighbourAllocator> neighbour,
    ComputeProgress compute, std::function<PauseOfCopiesToHost()> pause_copies_to_host) {
  size_t free_bytes = 0;
  size_t memory_bytes = 0;
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaMemGetInfo(&free_bytes, &memory_bytes), "ask for the GPU's memory"));
  const auto all_bytes = static_cast<int64_t>(memory_bytes);
  auto space = CudaAddressSpace::reserve({.ordinal = ordinal,
                                          .size_bytes = kAddressesPerByte * all_bytes,
                                          .least_bytes = all_bytes / 2,
                                          .page_bytes = page_bytes(limit_bytes),
                                          .compute = std::move(compute),
                                          .pause_copies_to_host = std::move(pause_copies_to_host)});
  if (!space.ok()) return space.status();
  const int64_t granule_bytes = (*space)->page_bytes();
  auto memory = std::unique_ptr<CudaMemory>(
      new CudaMemory(std::move(*space), granule_bytes, std::move(neighbour)));
  memory->set_limit_bytes(limit_bytes);
  memory->neighbours_old_bytes_ = memory->neighbour_bytes();
  memory->reset_peak();
  return memory;
}

CudaMemory::CudaMemory(std::unique_ptr<CudaAddressSpace> space, int64_t page_bytes,
                       std::unique_ptr<NeighbourAllocator> neighbour)
    : space_(*space),
      pool_(std::make_unique<PagePool>(
          std::move(space), PagePoolOptions{.granule_bytes = page_bytes,
                                            .mapping_limit = std::numeric_limits<int64_t>::max()})),
      neighbour_(std::move(neighbour)) {}

int64_t CudaMemory::room_bytes() const {
  return limit_bytes_ - pool_->held_bytes() - neighbour_bytes();
}

std::byte* CudaMemory::hand_out(std::byte* block, int64_t size_bytes) {
  if (block == nullptr) return nullptr;
  if (size_bytes >= refused_bytes_) refused_bytes_ = 0;
  allocated_bytes_ += size_bytes;
  tell_neighbour();
  return block;
}

std::byte* CudaMemory::allocate_free(int64_t size_bytes) {
  return hand_out(pool_->allocate_free(size_bytes), size_bytes);
}

std::byte* CudaMemory::allocate_usual(int64_t size_bytes) {
  if (is_refused_still(size_bytes)) return nullptr;
  std::byte* block = allocate_within(size_bytes, room_bytes(), Effort::kUsual);
  if (block == nullptr && neighbour_ != nullptr && neighbour_->give_back())
    block = allocate_within(size_bytes, room_bytes(), Effort::kUsual);
  if (block == nullptr) {
    refused_bytes_ = size_bytes;
    awaited_bytes_ = shortage_bytes(size_bytes);
  }
  return hand_out(block, size_bytes);
}

std::byte* CudaMemory::allocate(int64_t size_bytes, Effort effort) {
  if (effort == Effort::kUsual) return allocate_usual(size_bytes);
  refused_bytes_ = 0;
  if (std::byte* block = allocate_usual(size_bytes)) return block;
  const int64_t room_bytes = this->room_bytes() + neighbours_old_bytes_;
  return hand_out(allocate_within(size_bytes, room_bytes, Effort::kUtmost), size_bytes);
}

std::byte* CudaMemory::allocate_within(int64_t size_bytes, int64_t room_bytes, Effort effort) {
  note_peak();
  neighbours_old_bytes_ = std::min(neighbours_old_bytes_, neighbour_bytes());
  std::byte* block = pool_->allocate(size_bytes, std::max<int64_t>(room_bytes, 0), effort);
  note_peak();
  return block;
}

// What the neighbour returns waits for the GPU, and moving pages takes long. Callers ask again at
// every op, in vain until as much has been released as is missing.
bool CudaMemory::is_refused_still(int64_t size_bytes) const {
  return refused_bytes_ > 0 && size_bytes >= refused_bytes_ && awaited_bytes_ > 0;
}

void CudaMemory::release(std::byte* block, int64_t size_bytes) {
  pool_->release(block, size_bytes);
  allocated_bytes_ -= size_bytes;
  awaited_bytes_ -= size_bytes;
  tell_neighbour();
}

int64_t CudaMemory::shortage_bytes(int64_t size_bytes) const {
  return std::max<int64_t>(pool_->shortage_bytes(size_bytes, room_bytes()), kPageBytes);
}

int64_t CudaMemory::spare_bytes() const {
  return std::min(kSparePages * space_.page_bytes(), limit_bytes_ / kLeastSpareShares);
}

void CudaMemory::set_limit_bytes(int64_t limit_bytes) {
  const int64_t least_bytes =
      neighbour_ == nullptr ? kLeastPages * space_.page_bytes() : kLeastSharedLimitBytes;
  if (limit_bytes != kNoBudget && neighbour_ != nullptr)
    limit_bytes = std::min(limit_bytes, neighbour_->common_limit_bytes());
  limit_bytes_ = std::clamp(limit_bytes, least_bytes, kMostLimitBytes);
  refused_bytes_ = 0;
  if (room_bytes() < 0 && neighbour_ != nullptr) neighbour_->give_back();
  if (room_bytes() < 0) pool_->trim(-room_bytes());
  tell_neighbour();
}

int64_t CudaMemory::return_free_bytes(int64_t size_bytes) {
  note_peak();
  const int64_t held_before_bytes = pool_->held_bytes();
  pool_->trim(size_bytes);
  tell_neighbour();
  return held_before_bytes - pool_->held_bytes();
}

int64_t CudaMemory::held_peak_bytes() {
  note_peak();
  return held_peak_bytes_;
}

void CudaMemory::reset_peak() {
  note_peak();
  held_peak_bytes_ = held_bytes();
}

// The pool's size has not changed since the last call, or has just done so.
void CudaMemory::note_peak() {
  const int64_t neighbour_peak_bytes = neighbour_ == nullptr ? 0 : neighbour_->held_peak_bytes();
  held_peak_bytes_ = std::max(held_peak_bytes_, pool_->held_bytes() + neighbour_peak_bytes);
  if (neighbour_ != nullptr) neighbour_->reset_peak();
}

void CudaMemory::tell_neighbour() {
  if (neighbour_ == nullptr) return;
  neighbour_->note_device_bytes(allocated_bytes_, pool_->held_bytes());
  const int64_t its_limit_bytes = std::max<int64_t>(limit_bytes_ - pool_->held_bytes(), 0);
  if (its_limit_bytes != std::exchange(neighbours_limit_bytes_, its_limit_bytes))
    neighbour_->set_limit_bytes(its_limit_bytes);
}

}  // namespace teraio::device
