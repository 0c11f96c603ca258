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
  frame.device_bytes_at_start = options_.engine.device->allocated_bytes();
  frame.start_ns = timeline_->now_ns();
}

// An op that had begun before the recording has no start.
void Runtime::end_op_in_timeline(OpFrame& frame, std::string_view name) {
  const int64_t start_ns = std::exchange(frame.start_ns, 0);
  if (start_ns == 0) return;
  timeline_->add_op({.name = name,
                     .position = frame.position,
                     .thread = thread_tag(),
                     .start_ns = start_ns,
                     .end_ns = timeline_->now_ns(),
                     .device_bytes_at_start = frame.device_bytes_at_start,
                     .device_bytes = options_.engine.device->allocated_bytes(),
                     .offloaded_bytes = engine_->offloaded_bytes()});
}

void Runtime::note_replay(const Recipe& recipe, int64_t start_ns) {
  if (timeline_ == nullptr) return;
  for (const LiveTensor* result : recipe.results)
    if (result != nullptr) return timeline_->add_replay(*result, start_ns);
}

}  // namespace teraio::engine
