// StepObserver: what each step of a run did and took: the log of iterations, the times of ops,
// where ops come from, and a timeline of some steps.
//
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "device/op_timer.h"
#include "engine/engine.h"
#include "engine/iteration_log.h"
#include "engine/timeline.h"
#include "engine/use.h"
#include "iteration/op_origin.h"
#include "learn/op_time_history.h"

namespace teraio::runtime {

class StepObserver {
 public:
  // All outlive the observer; `op_timer` may be null. The tiers of the options may go meanwhile.
  StepObserver(const engine::EngineOptions& options, device::OpTimer* op_timer,
               const engine::Engine& engine)
      : options_(options), engine_(engine), log_(options), op_times_(op_timer) {}

  // --- An op ----------------------------------------------------------------------------------

  // An op begins that is recorded: asks the caller where it comes from.
  void ask_for_origin(engine::OpFrame& frame, const iteration::OpSignature& signature,
                      engine::OpRequests& requests);
  // The op's inputs are there.
  void start(engine::OpFrame& frame) const {
    frame.begun.start.reset();
    if (timeline_ != nullptr)
      frame.begun.start = {timeline_->now_ns(), options_.device->allocated_bytes()};
  }
  // The op ends. `position` is that of the schedule that the engine follows.
  void end(const engine::OpFrame& frame, std::string_view name, const engine::OpFacts& facts,
           trace::OpIndex position) {
    if (timeline_ != nullptr && frame.begun.start) add_to_timeline(frame, name, facts, position);
  }
  // The op has ended. Returns how long it took; 0 when nobody wants to know.
  int64_t note_end(const engine::OpFrame& frame, const engine::OpFacts& facts);

  // A replay has ended.
  void note_replay(const engine::Recipe& recipe, int64_t start_ns);
  // The last `duration_ns` belong to no op.
  void leave_out_of_ops(int64_t duration_ns) { op_times_.leave_out(duration_ns); }
  // Nor do they belong to the iteration.
  void leave_out(int64_t duration_ns) {
    log_.leave_out(duration_ns);
    op_times_.leave_out(duration_ns);
  }

  // --- An iteration ---------------------------------------------------------------------------

  void start_iteration(bool is_recorded, bool are_times_wanted);
  struct EndedIteration {
    int64_t op_count = 0;
    int64_t planned_op_count = 0;
    engine::IterationRecord::Mode mode = engine::IterationRecord::Mode::kOnDemand;
    bool is_repeated = false;  // it had the ops of the one before
    bool is_known = false;     // a plan may come from its times
  };
  void end_iteration(const EndedIteration& ended);
  // As IterationLog::join(). No timeline shows them, nor the one that runs.
  void join_iterations(std::span<const int64_t> counts);
  void set_pattern(int64_t pattern) { log_.set_pattern(pattern); }
  std::optional<learn::TimedSteps> apply_times(iteration::Profile& profile,
                                               int64_t first_step) const {
    return op_times_.apply_to(profile, first_step);
  }

  const engine::IterationLog& log() const { return log_; }
  // In whole iterations.
  int64_t op_count() const { return op_count_; }
  int64_t planned_op_count() const { return planned_op_count_; }

 private:
  void add_to_timeline(const engine::OpFrame& frame, std::string_view name,
                       const engine::OpFacts& facts, trace::OpIndex position);
  iteration::OpOrigin origin_of(const engine::OpFrame& frame, const engine::OpFacts& facts,
                                trace::OpIndex position) const;

  const engine::EngineOptions& options_;
  const engine::Engine& engine_;
  engine::IterationLog log_;
  learn::OpTimeHistory op_times_;
  iteration::OriginMemory origins_;
  engine::Timeline* timeline_ = nullptr;  // that records this step; null: none does
  int64_t op_count_ = 0;
  int64_t planned_op_count_ = 0;
};

}  // namespace teraio::runtime
