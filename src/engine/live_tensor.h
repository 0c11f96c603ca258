// LiveTensor: one storage of the running program, from its creation to its death.
//
// The object itself is the tensor's identity (the id is for messages). The address of the bytes is
// not, because it changes whenever the tensor is offloaded and restored.
//
// Where the bytes are is the Residency; what is remembered besides is in a struct for each part of
// the engine that writes it. Which states go together (broken_rule() checks it):
//
//                memory  transfer    copy on a tier   is_copy_     unanswered   guarded while
//                        under way   that is valid    pending                   not pinned
//   kResident    yes     no (1)      any              (1)          (2)          with a valid copy
//   kOffloading  yes     yes         no               no           no           yes
//   kOffloaded   no      no          yes (3)          no           no           no
//   kLoading     yes     yes (2)     yes              no           (2)          no
//   kDiscarded   no      no          no, no extent    no           no           no
//   kDonated     no      no          no, no extent    no           no           no
//
//   (1) yes while the last copies of a read are under way, for which compute waits
//   (2) the transfer has failed because its drive does not answer, and no other is under way: a
//       tensor that was written is kResident, one that was read stays kLoading or kResident
//   (3) no more when the session has ended without it (Engine::discard_all())
//
// A discarded tensor has a recipe. A tensor that is dead (Life) has a transfer under way or
// unanswered.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/pooled.h"
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
  kDonated,     // the bytes are another tensor's now, for which a replay made this one
};

// Whether the program still has the tensor.
enum class Life : uint8_t {
  kAlive,
  kDroppedInUse,    // dropped inside an op, or while pinned: freed when the last pin goes
  kKeptForRecipes,  // dropped, and a discarded tensor is made from it
  kDead,            // dropped, and a transfer uses its memory: freed when that ends
};

// Where a tier keeps the bytes. The extent stays reserved while the tensor lives, so rewriting it
// needs no allocation. `is_valid` holds until an op writes the tensor.
struct TierCopy {
  storage::Extent extent;
  bool is_valid = false;
};

// What a tensor is, for people; an empty name: not known. The name belongs to the timeline.
struct TensorLabel {
  std::string_view name;
  trace::TensorKind kind = trace::TensorKind::kOther;
};

// By the thread that creates the tensor, and by the ops that see it first.
struct BirthState {
  uintptr_t thread = 0;                   // the op that this thread runs created it
  std::atomic<bool> is_complete = false;  // is_complete()
};

// By the Engine and the Runtime.
struct UseState {
  uint64_t last_op = 0;           // ComputePoints::op() at the last use
  uint32_t pin_count = 0;         // running ops and holds; the tensor moves only at 0
  uint32_t write_pin_count = 0;   // those of them that may change the bytes at any time
  bool is_address_known = false;  // code outside the engine may use it: pinned until it dies
};

// What happens to the tensor when the write that is under way has ended well.
enum class AfterWrite : uint8_t {
  kLeaves,      // the device, unless it is pinned
  kStays,       // a prefetch fell due meanwhile
  kStaysStale,  // its bytes have changed meanwhile: the copy is of no use
};

// By the TensorMover, and by TierCopies: the transfer under way, or the last one.
struct TransferState {
  plan::Tier tier = plan::Tier::kSsd;
  AfterWrite after_write = AfterWrite::kLeaves;  // kOffloading
  bool is_copy_pending = false;  // resident for compute, which waits for the read's last copies
  bool is_guarded = false;       // TensorMover::update_guard()
  bool is_urgent = false;        // for a timeline
  storage::TransferId id = 0;
  TensorLabel label;  // for a timeline
  // Not null: a transfer has failed because a drive does not answer, which still may use the memory
  // and the extent.
  std::unique_ptr<Status> unanswered;
  // kLoading: the bytes are there after these; empty: not known.
  std::vector<device::Event> arrival;
  // What has brought the bytes without the program's knowledge: copies that compute waits for, a
  // replay, or the adoption. Other streams have to wait for them, too. May have passed.
  std::vector<device::Event> brought_by;

  // A prefetch falls due while the tensor is being written.
  void want_back() {
    if (after_write == AfterWrite::kLeaves) after_write = AfterWrite::kStays;
  }
};

struct Recipe;

// By recipe.h. Who changes the bytes counts the version.
struct ReplayState {
  uint64_t version = 0;            // differs when the bytes do
  std::shared_ptr<Recipe> recipe;  // null: it cannot be made again
  size_t result = 0;               // of the recipe's results
  uint64_t discarded_hash = 0;     // ReplayCheck: of the bytes of a discarded tensor
  std::vector<Recipe*> read_by;    // the recipes that it is an input of
};

// By the Recorder.
struct RecordState {
  uint64_t epoch = 0;  // the recording that `index` belongs to
  trace::TensorIndex index = -1;
  bool is_described = false;  // Recorder::describe()
  enum class Persistence : uint8_t {
    kNone,
    kSmall,          // lived through a recorded iteration
    kIdentifiesOps,  // the same, and is large enough to identify the ops that use it
  };
  Persistence persistence = Persistence::kNone;
};

// By the IterationDetector.
struct UpdateState {
  bool is_parameter = false;   // a leaf that requires a gradient has been seen over it
  bool is_used_since = false;  // its last change
  uint64_t last = 0;           // of the detector's count of updates
};

// What the schedule that is followed has of it: by the ProfileBinding and the PrefetchQueue.
struct PlannedState {
  trace::TensorIndex profile_index = -1;
  int64_t prefetch_deadline = 0;  // counted in ops, over all iterations
};

struct LiveTensor : Pooled<LiveTensor> {
  uint64_t id = 0;
  int64_t size_bytes = 0;
  size_t registry_position = 0;  // in Engine::live()
  // For StorageSwap; null: the tensor cannot be offloaded. Set by any thread without the lock.
  std::atomic<void*> owner = nullptr;
  std::byte* memory = nullptr;
  Residency residency = Residency::kResident;
  Life life = Life::kAlive;
  BirthState birth;
  UseState uses;
  std::array<TierCopy, kTierCount> copies;  // by Tier
  TransferState transfer;
  ReplayState replay;
  RecordState record;
  UpdateState update;
  PlannedState planned;

  TierCopy& copy(plan::Tier tier) { return copies[static_cast<size_t>(tier)]; }
  const TierCopy& copy(plan::Tier tier) const { return copies[static_cast<size_t>(tier)]; }
  const TierCopy* valid_copy() const {
    for (const TierCopy& candidate : copies)
      if (candidate.is_valid) return &candidate;
    return nullptr;
  }
  // The device or a drive uses its memory, or an extent, or may still do so.
  bool is_being_moved() const {
    return residency == Residency::kOffloading || residency == Residency::kLoading ||
           transfer.is_copy_pending || transfer.unanswered != nullptr;
  }
};

// Returns the first rule of the table above that the tensor breaks; empty: none. For tests.
std::string_view broken_rule(const LiveTensor& tensor);

}  // namespace teraio::engine
