// EngineOptions: what an engine works on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/units.h"
#include "device/device.h"
#include "engine/storage_swap.h"
#include "engine/wait_interrupt.h"
#include "storage/tier_store.h"

namespace teraio::engine {

class Timeline;

inline constexpr size_t kTierCount = 2;

// All pointers outlive the engine. A tier that does not exist is null.
struct EngineOptions {
  device::Device* device = nullptr;
  std::array<storage::TierStore*, kTierCount> stores = {};  // by plan::Tier
  StorageSwap* swap = nullptr;
  const Clock* clock = nullptr;
  WaitInterrupt* interrupt = nullptr;         // null: nothing ends a wait but I/O
  Timeline* timeline = nullptr;               // null: none is recorded
  int64_t smallest_tensor_bytes = 64 * kKiB;  // smaller ones never move
  // The least budget for the iterations that are known; 0: none is. Called with the engine's lock,
  // by what refuses memory. Empty: none is known.
  std::function<int64_t()> least_budget_bytes;
  bool verify_replays = false;          // compare what they make with what was discarded
  bool poison_released_memory = false;  // tests: stale bytes are never right by luck
};

}  // namespace teraio::engine
