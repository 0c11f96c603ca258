// Runtime: what the hooks of a framework call. Observes ops, learns the iteration, plans, and has
// the engine execute.
//
// Life of a run: every op is recorded while it runs on demand; when two iterations in a row were
// equal, the second one's profile is planned and followed; an iteration that differs falls back to
// on-demand migration op by op, and a new pattern that repeats is profiled and planned anew.
//
// Threads: any thread may call; one lock inside. A call may wait for I/O with that lock held. The
// caller must not hold a lock that a thread inside a call could need (Python's included, unless the
// I/O threads never take it, which is so).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/op_timer.h"
#include "engine/engine.h"
#include "engine/follower.h"
#include "engine/recorder.h"

namespace teraio::engine {

struct RuntimeOptions {
  EngineOptions engine;
  // From a profile to the plan to execute; called between iterations, on the thread that
  // ends one. Empty: everything stays on demand (but eviction knows the next uses).
  std::function<Result<plan::Plan>(const Profile&)> make_plan;
  // Asked after every planned iteration: in what the machine differs from what the plan was made
  // for, for people; make_plan knows it then. Empty: it never does.
  std::function<std::optional<std::string>()> machine_change;
  bool evict_after_every_op = false;    // tests
  device::OpTimer* op_timer = nullptr;  // null: the clock tells how long ops take
};

// One op under way. Lives on the stack of the thread that runs it.
struct OpFrame {
  std::vector<Use> uses;  // each tensor once: inputs, then results
  size_t input_count = 0;
  trace::OpIndex position = kLost;
  bool is_begun = false;
};

struct IterationRecord {
  enum class Mode : uint8_t { kOnDemand, kPlanned, kDeviated };
  int64_t duration_ns = 0;
  int64_t stall_read_ns = 0;
  int64_t stall_memory_ns = 0;
  int64_t ssd_bytes_read = 0;
  int64_t ssd_bytes_written = 0;
  int64_t host_bytes_read = 0;
  int64_t host_bytes_written = 0;
  int64_t device_peak_bytes = 0;
  int64_t op_count = 0;
  Mode mode = Mode::kOnDemand;
};

struct MemorySample {
  int64_t time_ns = 0;  // from the iteration's start
  int64_t device_bytes = 0;
};

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options);

  // --- Called by the hooks -------------------------------------------------------------------
  Result<LiveTensor*> allocate(int64_t size_bytes);
  // The program has dropped the tensor. While an op or a hold uses it, its bytes stay.
  void release(LiveTensor* tensor);

  // frame.uses holds the inputs. A failure leaves the frame as if the op had not begun.
  Status begin_op(OpFrame& frame, uint64_t signature);
  // The caller has appended the results to frame.uses. `is_complete`: the results' bytes are final
  // (false for ops such as aten::empty, whose caller fills them in without an op).
  void end_op(OpFrame& frame, std::string_view name, uint64_t signature, bool is_complete);

  Status hold(LiveTensor* tensor);
  void unhold(LiveTensor* tensor);
  // Until the tensor dies: somebody outside may read and change its bytes at any time. No effect
  // when it has been done before.
  Status hold_for_good(LiveTensor* tensor);
  // Another stream of the device than compute's (as for Device::record_on) was told to work on
  // these, which are there. They stay until it is done with what it was told so far; where memory
  // is short, that is waited for.
  void keep_for_stream(void* stream, std::span<const Use> uses);
  void mark_written(LiveTensor* tensor);
  // No tensor leaves or comes back during the call, which must not call into the runtime.
  void while_nothing_moves(const std::function<void()>& call);
  void describe(LiveTensor* tensor, trace::TensorKind kind, std::string name);

  // Before and after every optimizer step, where the framework can tell. A program that never tells
  // is divided where a parameter is changed again that was used since its last change.
  void begin_step();
  void end_step();
  // Around work of our own between two of the program's ops: its time is neither the next op's nor
  // the iteration's. One at a time, on the thread whose ops it stands between.
  void begin_own_work();
  void end_own_work();

  // --- Called by the session -----------------------------------------------------------------
  // Follows a given plan from the next iteration on. The profile must be the program's.
  void set_plan(plan::Plan plan) { given_plan_ = std::move(plan); }
  // Everything comes back, nothing is evicted, recorded or planned any more. After success the
  // stores are not used again; after failure they hold what could not come back.
  Status stop();
  // The same for a process that ends: nothing comes back, and what is away is lost.
  void abandon();

  std::optional<trace::Trace> trace() const;
  bool has_trace() const;
  std::optional<plan::Plan> current_plan() const;
  std::vector<IterationRecord> iterations() const;
  // Device memory over the last whole iteration: from each op's end on at which it was another.
  std::vector<MemorySample> memory_timeline() const;
  EngineCounters counters() const;
  device::MemoryUsage memory_usage() const;
  const device::Device& device() const { return *options_.engine.device; }
  int64_t deviation_count() const;
  int64_t unmovable_bytes() const;
  int64_t held_for_good_bytes() const;
  int64_t bytes_away() const;
  Status planning_status() const;
  bool is_following_plan() const;

 private:
  void start_iteration();
  void end_segment();
  void end_iteration();
  void note_iteration();
  void learn();
  void find_period();
  void refine_plan();
  void keep_op_times();
  void take_op_times(Profile& profile) const;
  bool is_new_plan_due();
  void adopt_profile(Profile profile);
  bool begins_new_update(std::span<const Use> uses);
  int64_t note_time();
  void note_op(const OpFrame& frame, std::string_view name, uint64_t signature, bool is_complete);
  std::span<LiveTensor* const> births_of_this_thread();
  template <typename Call>
  auto with_kept(Call call);
  void end_keeps();
  bool wait_for_keep();
  void unpin(std::span<LiveTensor* const> tensors);
  void free_tensor(LiveTensor* tensor);
  void free_dropped(std::span<const Use> uses);
  int64_t take_workspace_bytes();
  void forget_birth(const LiveTensor& tensor);

  mutable std::mutex mutex_;
  RuntimeOptions options_;
  Engine engine_;
  Follower follower_;
  Recorder recorder_;
  bool is_active_ = true;
  bool is_recording_ = true;
  bool is_planned_ = false;
  bool are_ops_timed_ = false;
  std::optional<plan::Plan> given_plan_;
  plan::Plan plan_;
  Status planning_status_;

  std::vector<LiveTensor*> births_;  // since the last op ended, and alive
  int64_t born_bytes_ = 0;
  int64_t born_peak_bytes_ = 0;
  int64_t last_op_end_ns_ = 0;
  int64_t last_op_end_stall_ns_ = 0;
  int64_t own_work_start_ns_ = 0;

  // Used by other streams until `end`, and pinned for that.
  struct Kept {
    device::Event end;
    std::vector<LiveTensor*> tensors;
  };
  std::vector<Kept> kept_;  // in the order of asking

  // Segments: what lies between two steps. An iteration is one of them, or several in a row when
  // only those repeat (two optimizers that take turns).
  bool has_step_hook_ = false;
  uint64_t segment_hash_ = 0;
  std::vector<uint64_t> segment_hashes_;
  uint64_t segment_count_ = 1;
  int64_t segments_per_iteration_ = 1;
  int64_t segment_in_iteration_ = 0;
  uint64_t sequence_hash_ = 0;
  uint64_t previous_sequence_hash_ = 0;
  std::vector<int64_t> durations_ns_;  // of the ops of this iteration
  // Of the last iterations in a row that had the same ops, up to the one that ended last.
  std::deque<std::vector<int64_t>> kept_durations_ns_;
  int64_t iterations_on_plan_ = 0;
  int64_t op_count_ = 0;
  int64_t iteration_start_ns_ = 0;
  EngineCounters counters_at_start_;
  std::array<storage::TierCounters, kTierCount> tiers_at_start_;
  std::vector<IterationRecord> iterations_;
  std::vector<MemorySample> samples_;
  std::vector<MemorySample> last_samples_;
};

}  // namespace teraio::engine
