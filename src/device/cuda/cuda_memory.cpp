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

// Pages of the GPU are mapped one by one, and some of the budget lies in parts of them where they
// are shared with the framework's allocator. The driver's least size is 2 MiB.
constexpr int64_t kPageCount = 256;
constexpr int64_t kMostPageBytes = 32 * kMiB;

// What plans leave free, so that blocks find places. Plans that were replayed offline with a
// hundredth free moved blocks on the device for .35 % of a step in the median, at assumed rates
// (docs/decisions/002-one-arena.md).
constexpr int64_t kSpareShares = 100;

// Below a few pages nothing could be allocated, so that a smaller budget limits blocks alone.
constexpr int64_t kLeastPages = 8;
// PyTorch's caching allocator takes memory in segments of 20 MiB, separate ones for each stream,
// and FSDP2 uses three streams.
constexpr int64_t kLeastSharedLimitBytes = 96 * kMiB;

// Addresses cost no memory. The range leaves room for pages that are exchanged and for a larger
// budget later.
constexpr int64_t kAddressesPerByte = 4;
// No GPU has more. Sums of limits cannot overflow.
constexpr int64_t kMostLimitBytes = int64_t{1} << 60;

int64_t page_bytes(int64_t limit_bytes) {
  const uint64_t wanted_bytes = std::clamp(limit_bytes / kPageCount, kPageBytes, kMostPageBytes);
  return static_cast<int64_t>(std::bit_floor(wanted_bytes));
}

}  // namespace

Result<std::unique_ptr<CudaMemory>> CudaMemory::make(int32_t ordinal, int64_t limit_bytes,
                                                     std::unique_ptr<FrameworkAllocator> framework,
                                                     std::function<Status()> wait_for_compute) {
  size_t free_bytes = 0;
  size_t memory_bytes = 0;
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaMemGetInfo(&free_bytes, &memory_bytes), "ask for the GPU's memory"));
  const auto all_bytes = static_cast<int64_t>(memory_bytes);
  auto space = CudaAddressSpace::reserve({.ordinal = ordinal,
                                          .size_bytes = kAddressesPerByte * all_bytes,
                                          .least_bytes = all_bytes / 2,
                                          .page_bytes = page_bytes(limit_bytes),
                                          .wait_for_compute = std::move(wait_for_compute)});
  if (!space.ok()) return space.status();
  auto memory =
      std::unique_ptr<CudaMemory>(new CudaMemory(std::move(*space), std::move(framework)));
  // What it has cached would count as taken for good: plans would leave that much of the budget.
  if (memory->framework_ != nullptr) memory->framework_->give_back();
  memory->set_limit_bytes(limit_bytes);
  memory->framework_old_bytes_ = memory->framework_bytes();
  memory->reset_peak();
  return memory;
}

CudaMemory::CudaMemory(std::unique_ptr<CudaAddressSpace> space,
                       std::unique_ptr<FrameworkAllocator> framework)
    : space_(*space),
      arena_(std::make_unique<Arena>(std::move(space), space_.page_bytes())),
      framework_(std::move(framework)) {}

int64_t CudaMemory::room_bytes() const {
  return limit_bytes_ - arena_->held_bytes() - framework_bytes();
}

std::byte* CudaMemory::hand_out(std::byte* block, int64_t size_bytes) {
  if (block == nullptr) return nullptr;
  if (size_bytes >= refused_bytes_) refused_bytes_ = 0;
  allocated_bytes_ += size_bytes;
  tell_framework();
  return block;
}

std::byte* CudaMemory::allocate_free(int64_t size_bytes, const Tenant& tenant) {
  return hand_out(arena_->allocate_free(size_bytes, tenant), size_bytes);
}

std::byte* CudaMemory::allocate_usual(int64_t size_bytes, const Tenant& tenant) {
  if (is_refused_still(size_bytes)) return nullptr;
  std::byte* block = allocate_within(size_bytes, room_bytes(), Effort::kUsual, tenant);
  if (block == nullptr && framework_ != nullptr && framework_->give_back())
    block = allocate_within(size_bytes, room_bytes(), Effort::kUsual, tenant);
  if (block == nullptr) {
    refused_bytes_ = size_bytes;
    awaited_bytes_ = size_bytes - arena_->largest_bytes(room_bytes());
  }
  return hand_out(block, size_bytes);
}

std::byte* CudaMemory::allocate(int64_t size_bytes, Effort effort, const Tenant& tenant) {
  if (effort == Effort::kUsual) return allocate_usual(size_bytes, tenant);
  refused_bytes_ = 0;
  if (std::byte* block = allocate_usual(size_bytes, tenant)) return block;
  const int64_t room_bytes = this->room_bytes() + framework_old_bytes_;
  return hand_out(allocate_within(size_bytes, room_bytes, Effort::kUtmost, tenant), size_bytes);
}

std::byte* CudaMemory::allocate_within(int64_t size_bytes, int64_t room_bytes, Effort effort,
                                       const Tenant& tenant) {
  note_peak();
  framework_old_bytes_ = std::min(framework_old_bytes_, framework_bytes());
  std::byte* block = arena_->allocate(size_bytes, tenant, std::max<int64_t>(room_bytes, 0), effort);
  note_peak();
  return block;
}

// What the framework returns waits for the GPU. Callers ask again at every op, in vain until as
// much has been released as is missing.
bool CudaMemory::is_refused_still(int64_t size_bytes) const {
  return refused_bytes_ > 0 && size_bytes >= refused_bytes_ && awaited_bytes_ > 0;
}

void CudaMemory::release(std::byte* block, int64_t size_bytes) {
  arena_->release(block);
  allocated_bytes_ -= size_bytes;
  awaited_bytes_ -= size_bytes;
  tell_framework();
}

int64_t CudaMemory::spare_bytes() const { return limit_bytes_ / kSpareShares; }

void CudaMemory::set_limit_bytes(int64_t limit_bytes) {
  const int64_t least_bytes =
      framework_ == nullptr ? kLeastPages * space_.page_bytes() : kLeastSharedLimitBytes;
  if (limit_bytes != kNoBudget && framework_ != nullptr)
    limit_bytes = std::min(limit_bytes, framework_->common_limit_bytes());
  limit_bytes_ = std::clamp(limit_bytes, least_bytes, kMostLimitBytes);
  refused_bytes_ = 0;
  if (room_bytes() < 0 && framework_ != nullptr) framework_->give_back();
  if (room_bytes() < 0) arena_->trim(-room_bytes());
  tell_framework();
}

int64_t CudaMemory::return_free_bytes(int64_t size_bytes) {
  note_peak();
  const int64_t held_before_bytes = arena_->held_bytes();
  arena_->trim(size_bytes);
  tell_framework();
  return held_before_bytes - arena_->held_bytes();
}

int64_t CudaMemory::held_peak_bytes() {
  note_peak();
  return held_peak_bytes_;
}

void CudaMemory::reset_peak() {
  note_peak();
  held_peak_bytes_ = held_bytes();
}

// The arena's size has not changed since the last call, or has just done so.
void CudaMemory::note_peak() {
  const int64_t framework_peak_bytes = framework_ == nullptr ? 0 : framework_->held_peak_bytes();
  held_peak_bytes_ = std::max(held_peak_bytes_, arena_->held_bytes() + framework_peak_bytes);
  if (framework_ != nullptr) framework_->reset_peak();
}

void CudaMemory::tell_framework() {
  if (framework_ == nullptr) return;
  framework_->note_device_bytes(allocated_bytes_, arena_->held_bytes());
  const int64_t its_limit_bytes = std::max<int64_t>(limit_bytes_ - arena_->held_bytes(), 0);
  if (its_limit_bytes != std::exchange(framework_limit_bytes_, its_limit_bytes))
    framework_->set_limit_bytes(its_limit_bytes);
}

}  // namespace teraio::device
