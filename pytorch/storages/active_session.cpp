#include "storages/active_session.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace teraio::pytorch {

// What one thread uses. Slots are never freed; that of a thread that has ended is used again.
struct SessionSlot {
  std::atomic<ActiveSession*> used = nullptr;
  int depth = 0;
};

namespace {

std::atomic<ActiveSession*> active = nullptr;

class Registry {
 public:
  SessionSlot* take_slot() {
    const std::lock_guard lock(mutex_);
    if (free_slots_.empty()) return slots_.emplace_back(new SessionSlot());
    SessionSlot* slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  void give_back(SessionSlot* slot) {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(slot);
  }

  // Adds the session to those that have ended. Returns those that no thread uses.
  std::vector<std::shared_ptr<ActiveSession>> retire(std::shared_ptr<ActiveSession> session) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(session));
    if (!fence_all_threads()) return {};
    const auto is_used = [this](const std::shared_ptr<ActiveSession>& each) {
      return std::any_of(slots_.begin(), slots_.end(), [&](const SessionSlot* slot) {
        return slot->used.load(std::memory_order_acquire) == each.get();
      });
    };
    const auto unused = std::partition(ended_.begin(), ended_.end(), is_used);
    std::vector<std::shared_ptr<ActiveSession>> dropped(unused, ended_.end());
    ended_.erase(unused, ended_.end());
    return dropped;
  }

 private:
  // Makes every thread of the process pass a full memory barrier. False: the system cannot.
  static bool fence_all_threads() {
    static const bool is_registered =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    return is_registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  }

  std::mutex mutex_;
  std::vector<SessionSlot*> slots_;
  std::vector<SessionSlot*> free_slots_;
  std::vector<std::shared_ptr<ActiveSession>> ended_;
};

Registry& registry() {
  static auto* instance = new Registry();  // threads may end after the static objects
  return *instance;
}

thread_local SessionSlot* slot_of_this_thread = nullptr;

// Gives the slot back when the thread ends.
struct SlotOwner {
  ~SlotOwner() { registry().give_back(std::exchange(slot_of_this_thread, nullptr)); }
};

SessionSlot* make_slot_of_this_thread() {
  slot_of_this_thread = registry().take_slot();
  static thread_local SlotOwner owner;
  return slot_of_this_thread;
}

}  // namespace

ActiveSession* active_session() { return active.load(std::memory_order_acquire); }

void set_active_session(ActiveSession* session) {
  active.store(session, std::memory_order_release);
}

// Every op comes here, so the thread does without a memory barrier: retire() makes it pass one. The
// store below comes before that barrier, and retire() sees it, or the second load comes after it,
// and sees that the session has ended.
SessionUse::SessionUse() {
  ActiveSession* session = active_session();
  if (session == nullptr) return;
  SessionSlot* slot = slot_of_this_thread;
  if (slot == nullptr) slot = make_slot_of_this_thread();
  if (slot->depth == 0) {
    slot->used.store(session, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (active.load(std::memory_order_relaxed) != session) {
      slot->used.store(nullptr, std::memory_order_release);
      return;
    }
  } else if (slot->used.load(std::memory_order_relaxed) != session) {
    return;  // the session of the outer use has ended, and another one has begun
  }
  ++slot->depth;
  slot_ = slot;
  session_ = session;
}

SessionUse::~SessionUse() {
  if (slot_ != nullptr && --slot_->depth == 0)
    slot_->used.store(nullptr, std::memory_order_release);
}

void retire(std::shared_ptr<ActiveSession> session) {
  // Dropped without the lock: the last reference frees the session's device.
  const auto dropped = registry().retire(std::move(session));
}

}  // namespace teraio::pytorch
