// Replays: makes discarded tensors again, for a Runtime.
//
// A replay runs an op of the program, which allocates, so the runtime's lock is not held meanwhile.
// One thread replays at a time, by a mutex that comes before that lock. What a replay reads may
// need replays of its own, which the same thread runs first.
//
// Threads: any. Calls that take a RuntimeLock hold the lock and let go of it meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/yielding_mutex.h"
#include "engine/engine.h"
#include "engine/recipe.h"
#include "engine/replayer.h"
#include "runtime/step_observer.h"

namespace teraio::runtime {

// The one lock of a run.
using RuntimeMutex = YieldingMutex<std::mutex>;
using RuntimeLock = std::unique_lock<RuntimeMutex>;

class Replays {
 public:
  // What replays use of the runtime. All outlive the object.
  struct Host {
    RuntimeMutex& mutex;
    engine::Engine& engine;
    StepObserver& observer;
    const Clock& clock;
    engine::Replayer* replayer = nullptr;  // null: nothing is ever discarded
    // Restores a tensor and pins it, whatever the program drops meanwhile.
    std::function<Status(RuntimeLock&, engine::LiveTensor*)> pin;
    // With the lock.
    std::function<void(std::span<engine::LiveTensor* const>)> unpin;
  };

  Replays(Host host, WaitWithoutOtherLock wait_for_lock);

  // A call of the engine has failed with kReplayDue: runs the replay that is due. A failure ends
  // that call.
  Status run_due(RuntimeLock& lock);

  // Makes all discarded tensors again, and ends the engine's discards. kOutOfMemory, kInterrupted:
  // some are still discarded, and it may be called again. Other failures are failure(). Without the
  // lock.
  Status replay_all();
  // Why replay_all() has left tensors discarded. With the lock.
  const Status& failure() const { return failure_; }

  // The op before which temporaries were made begins: no replay reads them any more. Releases the
  // lock if there are any.
  void drop_temporaries(RuntimeLock& lock) {
    if (!open_temporaries_.empty()) drop_open_temporaries(lock);
  }

 private:
  class Turn;
  class Chain;
  class HeldInputs;
  using Temporaries = std::vector<std::unique_ptr<engine::ReplayResults>>;

  Status replay_in_turn(const engine::DueReplay& due);
  Status replay(const std::shared_ptr<engine::Recipe>& recipe, bool keeps_results, Chain& chain);
  Status try_replay(const std::shared_ptr<engine::Recipe>& recipe, bool keeps_results,
                    Chain& chain);
  void drop_read_temporaries(const engine::Recipe& recipe);
  void drop_open_temporaries(RuntimeLock& lock);

  const Host host_;
  YieldingMutex<std::recursive_mutex> turn_mutex_;  // before the lock
  int depth_ = 0;                                   // under turn_mutex_
  // Recipes whose temporaries wait for the replays that read them.
  std::vector<std::shared_ptr<engine::Recipe>> open_temporaries_;
  Status failure_;
};

}  // namespace teraio::runtime
