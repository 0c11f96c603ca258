// LiveTensor: one storage of the running program, from its creation to its death.
//
// The object itself is the tensor's identity (the id is for messages). The address of the bytes is
// not, because it changes whenever the tensor is offloaded and restored.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/engine_options.h"
#include "engine/use.h"
#include "plan/plan.h"
#include "storage/tier_store.h"

namespace teraio::engine {

enum class Residency : uint8_t {
  kResident,    // the bytes are on the device
  kOffloading,  // a write to a tier is under way; the bytes are still on the device and valid
  kOffloaded,   // the bytes are only on a tier
  kLoading,     // a read is under way; device memory is taken, its bytes are not valid yet
  kDiscarded,   // the bytes are nowhere; the recipe makes them again
  kGivenAway,   // the bytes are another tensor's now, for which a replay made this one
};

// Where a tier keeps the bytes. The extent stays reserved while the tensor lives, so rewriting it
// needs no allocation. `is_valid` holds until an op writes the tensor.
struct TierCopy {
  storage::Extent extent;
  bool is_valid = false;
};

struct Recipe;

// What a tensor is, for people; an empty name: not known. The name belongs to the timeline.
struct TensorLabel {
  std::string_view name;
  trace::TensorKind kind = trace::TensorKind::kOther;
};

struct LiveTensor {
  uint64_t id = 0;
  int64_t size_bytes = 0;
  std::byte* memory = nullptr;  // null when kOffloaded, kDiscarded or kGivenAway
  Residency residency = Residency::kResident;
  bool is_dead = false;  // died while a transfer was under way; freed when that ends
  std::atomic<bool> is_seen_as_input = false;  // an op has read or changed it after its birth
  bool is_written_meanwhile = false;  // changed while a write was under way: that copy is stale
  bool is_wanted_back = false;        // a prefetch fell due while the offload was still under way
  bool is_guarded = false;            // TensorMover::update_guard()
  bool is_copy_pending = false;   // resident for compute, which waits for the read's last copies
  bool is_departure_due = false;  // Evictor::evict_by_plan()
  // Not null: a transfer has failed because a drive does not answer, which still may use the memory
  // and the extent. The tensor stays kLoading, or kResident, until the drive answers.
  std::unique_ptr<Status> unanswered;
  bool is_persistent = false;   // lived through a recorded iteration
  bool identifies_ops = false;  // such a tensor, and large enough to identify the ops that use it
  bool is_parameter = false;    // a leaf that requires a gradient has been seen over it
  bool is_used_since_update = false;
  uint64_t last_update = 0;        // of the detector's count of updates
  bool is_address_known = false;   // code outside the engine may use it: pinned until it dies
  bool is_dropped_in_use = false;  // the program let go of it inside an op: freed at pin_count 0
  uint32_t pin_count = 0;          // running ops and holds; moves only at 0
  uint32_t write_pin_count = 0;    // those of them that may change the bytes at any time
  std::array<TierCopy, kTierCount> copies;  // by Tier

  plan::Tier transfer_tier = plan::Tier::kSsd;
  storage::TransferId transfer = 0;
  TensorLabel transfer_label;       // of the transfer under way, where a timeline is recorded
  bool is_transfer_urgent = false;  // the same
  std::vector<device::Event>
      arrival;  // kLoading: the bytes are there after these; empty: not known
  // What has brought the bytes without the program's knowledge: copies that compute waits for, a
  // replay, or the adoption. Other streams have to wait for them, too. May have passed.
  std::vector<device::Event> brought_by;
  int64_t prefetch_deadline = 0;  // counted in ops, over all iterations

  uint64_t version = 0;              // differs when the bytes do
  std::shared_ptr<Recipe> recipe;    // null: it cannot be made again
  size_t recipe_result = 0;          // of the recipe's results
  uint64_t discarded_hash = 0;       // kDiscarded, where replays are verified: of the bytes
  std::vector<Recipe*> read_by;      // the recipes that it is an input of
  bool is_kept_for_recipes = false;  // the program has dropped it, and a discarded tensor needs it

  uint64_t last_use = 0;                  // ComputePoints::op() at the last use
  trace::TensorIndex profile_index = -1;  // in the profile that is followed
  uint64_t record_epoch = 0;              // the recording that record_index belongs to
  trace::TensorIndex record_index = -1;
  size_t registry_position = 0;
  uintptr_t birth_thread = 0;  // the op that this thread runs created it
  // For StorageSwap; null: the tensor cannot be offloaded. Set by any thread without the lock.
  std::atomic<void*> owner = nullptr;

  TierCopy& copy(plan::Tier tier) { return copies[static_cast<size_t>(tier)]; }
  const TierCopy& copy(plan::Tier tier) const { return copies[static_cast<size_t>(tier)]; }
  const TierCopy* valid_copy() const {
    for (const TierCopy& candidate : copies)
      if (candidate.is_valid) return &candidate;
    return nullptr;
  }
};

}  // namespace teraio::engine
