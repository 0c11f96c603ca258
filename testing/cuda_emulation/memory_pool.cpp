#include "testing/cuda_emulation/memory_pool.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace teraio::testing::emulated_cuda {

MemoryPools::MemoryPools(const Settings& settings, DeviceMemory& memory, Executor& executor)
    : poisons_(settings.poisons),
      memory_(memory),
      executor_(executor),
      default_pools_(static_cast<size_t>(settings.device_count)) {
  for (int32_t i = 0; i < settings.device_count; ++i) default_pools_[i].device = i;
}

char* MemoryPools::reuse(MemoryPool& pool, size_t size_bytes) {
  const auto fits = [&](const MemoryPool::Free& free) {
    return free.size_bytes == size_bytes && free.since->has_passed;
  };
  const auto found = std::find_if(pool.free.begin(), pool.free.end(), fits);
  if (found == pool.free.end()) return nullptr;
  char* memory = found->memory;
  pool.free.erase(found);
  return memory;
}

char* MemoryPools::take(MemoryPool& pool, size_t size_bytes) {
  char* memory = reuse(pool, size_bytes);
  if (memory != nullptr) return memory;
  memory = memory_.allocate(pool.device, size_bytes);
  if (memory != nullptr) pool.reserved_bytes += size_bytes;
  return memory;
}

// The driver would make the stream wait for memory that is being freed; here the caller waits.
char* MemoryPools::allocate(MemoryPool& pool, size_t size_bytes, Lock& lock) {
  constexpr size_t kPage = DeviceMemory::kPageBytes;
  size_bytes = (size_bytes + kPage - 1) / kPage * kPage;
  char* memory = take(pool, size_bytes);
  if (memory == nullptr) {
    executor_.wait_for_device(pool.device, lock);
    memory = reuse(pool, size_bytes);
    if (memory == nullptr) trim(pool, 0);
    if (memory == nullptr) memory = take(pool, size_bytes);
  }
  if (memory == nullptr) return nullptr;
  pool.used_bytes += size_bytes;
  pool.used_peak_bytes = std::max(pool.used_peak_bytes, pool.used_bytes);
  pool.reserved_peak_bytes = std::max(pool.reserved_peak_bytes, pool.reserved_bytes);
  in_use_[memory] = {&pool, size_bytes};
  return memory;
}

cudaError_t MemoryPools::release(void* memory, Stream& stream, Lock& lock) {
  const auto found = in_use_.find(memory);
  if (found == in_use_.end()) return cudaErrorInvalidValue;
  const auto [pool, size_bytes] = found->second;
  in_use_.erase(found);
  pool->used_bytes -= size_bytes;
  Task task;
  task.name = "free";
  task.end = std::make_shared<Point>();
  char* bytes = memory_.shadow(memory);
  if (poisons_) task.run = [bytes, size = size_bytes] { std::memset(bytes, 0xFF, size); };
  pool->free.push_back({static_cast<char*>(memory), size_bytes, task.end});
  executor_.push(stream, std::move(task), lock);
  return cudaSuccess;
}

void MemoryPools::trim(MemoryPool& pool, uint64_t kept_bytes) {
  for (auto free = pool.free.begin();
       free != pool.free.end() && pool.reserved_bytes > kept_bytes;) {
    if (!free->since->has_passed) {
      ++free;
      continue;
    }
    pool.reserved_bytes -= free->size_bytes;
    memory_.release(free->memory);
    free = pool.free.erase(free);
  }
}

}  // namespace teraio::testing::emulated_cuda
