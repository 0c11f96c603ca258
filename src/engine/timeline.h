// Timeline: what happened when in some steps of a run: ops, waits, transfers and device memory.
//
// Recording costs two readings of the clock per op. The memory is limited to about 50 MB: of more
// than 262,144 ops, or 65,536 transfers, the newest are kept.
//
// Threads: called under the runtime's lock, which the recording of ops has anyway. A TimelineRecord
// may be read without it while the timeline lives.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "engine/iteration_log.h"
#include "engine/live_tensor.h"
#include "engine/ring.h"
#include "engine/use.h"
#include "iteration/schedule.h"
#include "plan/plan.h"
#include "storage/tier_store.h"

namespace teraio::engine {

// The steps to record, by the indices of Runtime::iterations().
struct TimelineSteps {
  int64_t begin = -3;  // negative: so many of the newest whole steps, and the one after them
  int64_t end = std::numeric_limits<int64_t>::max();
};

struct StepSpan {
  int64_t index = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  IterationRecord::Mode mode = IterationRecord::Mode::kOnDemand;
};

// From the time when its inputs were there to its end. On a GPU that is the time to enqueue it.
struct OpSpan {
  std::string_view name;
  trace::OpIndex position = iteration::kLost;  // in the step, where that is known
  iteration::OpOrigin origin = {};
  uintptr_t thread = 0;  // thread_tag()
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t device_bytes_at_start = 0;
  int64_t device_bytes = 0;  // at the end; with the results
  int64_t offloaded_bytes = 0;
};

// What an op, or an allocation, waited for.
struct StallSpan {
  StallCause cause = StallCause::kRead;
  uintptr_t thread = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// What one drive, or the host tier, moved of a tensor. A tensor that leaves the device at once, by
// a drop or a discard, has no duration and no drive.
struct TransferSpan {
  TensorLabel tensor;
  uint64_t id = 0;  // of the tensor
  plan::Action action = plan::Action::kOffload;
  plan::Tier tier = plan::Tier::kSsd;
  int32_t drive = 0;  // of the tier
  bool is_urgent = false;
  ErrorCode error = ErrorCode::kOk;
  int64_t size_bytes = 0;  // that were moved
  int64_t submit_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct ReplaySpan {
  TensorLabel tensor;  // that was made again
  uint64_t id = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// What was recorded. The names belong to the timeline.
struct TimelineRecord {
  std::vector<StepSpan> steps;  // those that have ended; the first one is incomplete if is_cut
  std::vector<OpSpan> ops;
  std::vector<StallSpan> stalls;
  std::vector<TransferSpan> transfers;
  std::vector<ReplaySpan> replays;
  int64_t start_ns = 0;        // nothing that had ended then is in the record
  bool is_cut = false;         // steps before start_ns were asked for, and there were too many ops
  int64_t unix_offset_ns = 0;  // what to add to get Unix time
};

class Timeline {
 public:
  static constexpr size_t kOpsMax = size_t{1} << 18;
  static constexpr size_t kOthersMax = size_t{1} << 16;

  // `clock` outlives the timeline.
  Timeline(const TimelineSteps& steps, const Clock& clock, size_t ops_max = kOpsMax);

  // False: nothing is recorded now, and the calls below need not be made.
  bool is_on() const { return is_on_; }

  // The step with this index begins. Returns is_on().
  bool start_step(int64_t index);
  void end_step(int64_t end_ns, IterationRecord::Mode mode);
  // No step is recorded before the next one begins, and those so far were none.
  void forget_steps() {
    is_on_ = false;
    whole_steps_.clear();
  }
  // Profile indices of tensors refer to this schedule from now on. Also while nothing is recorded.
  void follow(std::shared_ptr<const iteration::Schedule> schedule) {
    schedule_ = std::move(schedule);
  }

  int64_t now_ns() const { return clock_.now_ns(); }
  TensorLabel label_of(const LiveTensor& tensor);
  void add_op(const OpSpan& op) { ops_.add(op); }
  void add_stall(StallCause cause, int64_t start_ns, int64_t end_ns);
  // A transfer has ended, perhaps with an error: what each drive moved. TransferState::label
  // and the like tell what it was for.
  void add_transfer(const LiveTensor& tensor, io::Direction direction,
                    const storage::Completion& completion);
  // A drop or a discard.
  void add_departure(const LiveTensor& tensor, plan::Action action);
  void add_replay(const LiveTensor& made, int64_t start_ns);

  TimelineRecord record() const;

 private:
  int64_t start_of_record_ns() const;

  const TimelineSteps steps_;
  const Clock& clock_;
  bool is_on_ = false;
  int64_t step_index_ = 0;
  int64_t step_start_ns_ = 0;
  int64_t unix_offset_ns_ = 0;
  std::shared_ptr<const iteration::Schedule> schedule_;
  std::unordered_set<std::string> names_;  // of tensors
  Ring<StepSpan> whole_steps_;
  Ring<OpSpan> ops_;
  Ring<StallSpan> stalls_;
  Ring<TransferSpan> transfers_;
  Ring<ReplaySpan> replays_;
};

}  // namespace teraio::engine
