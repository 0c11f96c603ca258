// The calls of Runtime that record a timeline.
#include <utility>

#include "engine/engine.h"
#include "engine/recipe.h"
#include "engine/runtime.h"
#include "engine/thread_tag.h"
#include "engine/timeline.h"

namespace teraio::engine {

// Null: this step is not recorded.
Timeline* Runtime::timeline_of_step() {
  Timeline* timeline = options_.engine.timeline;
  return timeline != nullptr && timeline->start_step(log_.iteration_count()) ? timeline : nullptr;
}

TimelineRecord Runtime::timeline_record() const {
  const std::lock_guard lock(mutex_);
  return options_.engine.timeline->record();
}

void Runtime::begin_op_in_timeline(OpFrame& frame) {
  frame.begun.start.reset();
  if (timeline_ == nullptr) return;
  frame.begun.start = {timeline_->now_ns(), options_.engine.device->allocated_bytes()};
}

// Of an op that is not recorded, where the pattern's op comes from.
OpOrigin Runtime::origin_of(const OpFrame& frame, const OpFacts& facts) const {
  if (frame.begun.origin_key) return facts.origin.value_or(OpOrigin());
  const std::vector<OpOrigin>& origins = engine_->schedule().profile().origins;
  const trace::OpIndex position = position_of(frame);
  const bool is_known = position != kLost && !origins.empty();
  return is_known ? origins[static_cast<size_t>(position)] : OpOrigin();
}

void Runtime::end_op_in_timeline(OpFrame& frame, std::string_view name, const OpFacts& facts) {
  if (!frame.begun.start) return;  // it began before the recording
  timeline_->add_op({.name = name,
                     .position = position_of(frame),
                     .origin = origin_of(frame, facts),
                     .thread = thread_tag(),
                     .start_ns = frame.begun.start->time_ns + facts.own_work_ns,
                     .end_ns = timeline_->now_ns(),
                     .device_bytes_at_start = frame.begun.start->device_bytes,
                     .device_bytes = options_.engine.device->allocated_bytes(),
                     .offloaded_bytes = engine_->offloaded_bytes()});
}

void Runtime::note_replay(const Recipe& recipe, int64_t start_ns) {
  if (timeline_ == nullptr) return;
  for (const LiveTensor* result : recipe.results)
    if (result != nullptr) return timeline_->add_replay(*result, start_ns);
}

}  // namespace teraio::engine
