// Runtime: what the hooks of a framework call. It observes ops, learns the iteration, plans, and
// has the engine execute the plan.
//
// Life of a run: every op is recorded while it runs on demand. Iterations that repeat are planned,
// and followed where the program runs their ops (PatternTracker); elsewhere tensors move on demand.
//
// Threads: any thread may call; the runtime has one lock. A call that needs a discarded tensor runs
// the Replayer on its thread, without that lock; one thread at a time does. A call may wait for I/O
// with the lock held. The I/O threads need neither this lock nor Python's, so the wait ends when
// the drives answer. EngineOptions::interrupt may end it before: the call fails with kInterrupted
// and has had no effect. The caller must hold no lock that the device's allocator or the
// StorageSwap takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/yielding_mutex.h"
#include "device/op_timer.h"
#include "engine/engine.h"
#include "engine/engine_options.h"
#include "engine/replayer.h"
#include "engine/stream_uses.h"
#include "engine/use.h"
#include "iteration/signature.h"
#include "learn/iteration_detector.h"
#include "learn/pattern_tracker.h"
#include "learn/planning_thread.h"
#include "learn/recorder.h"
#include "runtime/births.h"
#include "runtime/replays.h"
#include "runtime/run_figures.h"
#include "runtime/step_observer.h"

namespace teraio::runtime {

struct RuntimeOptions {
  engine::EngineOptions engine;
  // From a profile to the plan to execute; called on a thread of its own with
  // `plans_in_background`, else between iterations, on the thread that ends one. Empty: everything
  // stays on demand (but eviction knows the next uses).
  learn::MakePlan make_plan;
  // Called on that thread too. Empty: no better plan is searched for.
  learn::ImprovePlan improve_plan;
  bool plans_in_background = false;
  // As for PatternTrackerOptions.
  std::function<std::optional<std::string>()> machine_change;
  std::function<int64_t(const std::string& trace_name)> predicted_step_ns;
  std::function<void()> note_wrong_prediction;
  bool records_all = false;
  int64_t library_bytes_max = learn::PatternTrackerOptions().library_bytes_max;
  // The least device budget with which the iteration of a profile runs. Empty: it is not known.
  std::function<int64_t(const iteration::Profile&)> least_budget_bytes;
  // How a call waits for another thread that is in the runtime or replays.
  WaitWithoutOtherLock wait_for_lock;
  // Asked where memory is short, without the lock, by the call that lacks it: waits until somebody
  // unpins a tensor, which is expected at no known time. Returns false when nobody does. Empty:
  // nobody does.
  std::function<bool()> wait_for_unpin;
  engine::Replayer* replayer =
      nullptr;  // null: nothing is discarded, and profiles name no replayable op
  bool evict_after_every_op = false;    // tests
  bool discard_after_every_op = false;  // tests
  device::OpTimer* op_timer = nullptr;  // null: the clock tells how long ops take
};

// A new tensor and its memory on the device.
struct Allocation {
  engine::LiveTensor* tensor = nullptr;
  std::byte* memory = nullptr;
};

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options);
  // Requires that every tensor has been released.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // --- Called by the hooks -------------------------------------------------------------------

  // A tensor with memory. Other tensors leave for it when they must. Fails (kOutOfMemory) when
  // nothing more can leave; the message tells the budget and what holds it. The caller releases it.
  Result<Allocation> allocate(int64_t size_bytes);
  // The program has dropped the tensor. Its bytes stay while an op or a pin uses them.
  void release(engine::LiveTensor* tensor);
  // The caller has filled the tensor, which is new, in the order of compute with bytes that the
  // program takes for older: streams that the program does not make wait have to wait for them.
  void note_brought(engine::LiveTensor* tensor);

  // Before an op: frame.uses holds its inputs, which are on the device and pinned until end_op().
  // After a failure, the op has not begun.
  Result<engine::OpRequests> begin_op(engine::OpFrame& frame,
                                      const iteration::OpSignature& signature);
  // After it. While a plan is followed, waits without the lock until the device is at most a few
  // milliseconds behind (ComputePoints). The caller has appended the results to frame.uses. Has no
  // effect for an op that has not begun.
  void end_op(engine::OpFrame& frame, std::string_view name,
              const iteration::OpSignature& signature, const engine::OpFacts& facts);

  // Restores the tensor and keeps it on the device until unpin(). Pins nest. `is_write`: its bytes
  // may change at any time until then, so that copies on tiers are stale.
  Status pin(engine::LiveTensor* tensor, bool is_write = false);
  void unpin(engine::LiveTensor* tensor, bool is_write = false);  // as it was pinned
  // Until the tensor dies: somebody outside may read and change its bytes at any time. Has no
  // effect when it has been done before.
  Status pin_permanently(engine::LiveTensor* tensor);
  // Another stream of the device than compute's (as for Device::record_on) is about to work on
  // these tensors, which an op or a pin uses. It waits until what the engine has brought back is
  // there, and for nothing else: the order of the program's own work is the program's.
  Status order_stream(void* stream, std::span<const engine::Use> uses);
  // Another stream of the device than compute's (as for Device::record_on) was told to work on
  // these tensors, which are on the device. They stay until that work is done. Where memory is
  // short, allocations wait for it. Discarded tensors that are made from those that it writes are
  // made again first; one for which that fails is lost, and later uses of it fail. `is_use_open`:
  // the stream may get more such work, as for Device::record_use().
  void record_stream(void* stream, std::span<const engine::Use> uses, bool is_use_open = false);
  // Lets tensors leave until `size_bytes` of the device's memory have returned to the system, for
  // its other allocators. Fails as allocate() when nothing more can leave.
  Status return_memory(int64_t size_bytes);
  // Memory of other owners that counts against the budget and never moves; negative: as much less.
  void add_outside_bytes(int64_t size_bytes);
  // The tensors that this thread has made since its last op ended, and that are alive.
  std::vector<engine::LiveTensor*> births();
  // No tensor leaves or returns during the call, which must not call into the runtime.
  void while_nothing_moves(const std::function<void()>& call);
  // What a tensor is, for traces. Kept until the tensor dies.
  void describe(engine::LiveTensor* tensor, trace::TensorKind kind, std::string name);

  // Before and after every optimizer step, where the framework can tell. `optimizer` is equal for
  // the steps of one, and not 0 where it is known. A program that never tells is divided where a
  // parameter changes again that was used since its last change.
  void begin_step();
  void end_step(uint64_t optimizer = 0);
  // Around work of our own between two of the program's ops, or in one: its time belongs neither to
  // an op nor to the iteration. end_own_work() gets what begin_own_work() has returned, and
  // returns how long that was ago.
  int64_t begin_own_work() const;
  int64_t end_own_work(int64_t start_ns);

  // --- Called by the session -----------------------------------------------------------------

  // Makes all discarded tensors again, and discards none from now on. While the hooks are on:
  // replays allocate. kOutOfMemory, kInterrupted: some are still discarded, and it may be called
  // again. What cannot be made again for another reason is named by stop().
  Status replay_all();
  // Restores all tensors but those that replay_all() could not make again; nothing is evicted,
  // recorded or planned any more. After success the stores are not used again, if uses_stores()
  // says so. After failure they hold what could not be restored. kInterrupted: a drive hangs, and
  // later waits for it fail at once.
  Status stop();
  // The same for a process that ends: nothing is restored, and offloaded bytes are lost. Does not
  // wait for a drive that hangs, and ends the waits of other threads.
  void discard();
  // `with_unmovable_bytes`: walks over all tensors.
  RunFigures figures(bool with_unmovable_bytes = false) const;
  RunKnowledge knowledge() const;
  // From the one with the index `first` on, of the newest IterationLog::kIterationsMax.
  std::vector<engine::IterationRecord> iterations(size_t first = 0) const;

 private:
  // What the program holds, wherever it is.
  struct HeldBytes {
    int64_t all_bytes = 0;
    int64_t peak_bytes = 0;
    int64_t outside_bytes = 0;  // of them

    void change(int64_t change_bytes) {
      all_bytes += change_bytes;
      peak_bytes = std::max(peak_bytes, all_bytes);
    }
  };

  engine::EngineOptions engine_options();
  void start_iteration(bool is_complete);
  void finish_step(uint64_t optimizer = 0);
  void end_iteration();
  iteration::Profile recorded_profile();
  void note_op(const engine::OpFrame& frame, std::string_view name,
               const iteration::OpSignature& signature, const engine::OpFacts& facts,
               std::span<engine::LiveTensor* const> births, bool is_replayable);
  void note_differences(const engine::OpFrame& frame, std::string_view name,
                        const engine::OpFacts& facts);
  template <typename Call>
  auto complete(RuntimeLock& lock, const Call& call);
  Status mend(RuntimeLock& lock, const Status& failure);
  trace::OpIndex position_of(const engine::OpFrame& frame) const;
  bool is_replay_planned(trace::OpIndex position) const;
  device::Event note_enqueued(trace::OpIndex position);
  void wait_for_device(device::Event due);
  bool is_replayable(const engine::OpReplay& replay);
  Status pin_held(RuntimeLock& lock, engine::LiveTensor* tensor);
  bool wait_for_stream();
  void unpin_all(std::span<engine::LiveTensor* const> tensors);
  void release_locked(engine::LiveTensor* tensor);
  void free_tensor(engine::LiveTensor* tensor);
  void free_dropped(std::span<const engine::Use> uses);
  void leave_stores(bool are_free);

  mutable RuntimeMutex mutex_;
  RuntimeOptions options_;
  engine::Engine engine_;
  learn::PatternTracker patterns_;
  learn::Recorder recorder_;
  learn::IterationDetector detector_;
  engine::StreamUses stream_uses_;
  StepObserver observer_;
  Replays replays_;
  Births births_;
  bool is_active_ = true;
  bool is_recording_ = true;
  bool uses_stores_ = true;
  HeldBytes held_;
  int64_t permanently_pinned_bytes_ = 0;
};

}  // namespace teraio::runtime
