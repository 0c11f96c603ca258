#include "runtime/step_observer.h"

#include "engine/recipe.h"
#include "engine/thread_tag.h"

namespace teraio::runtime {

void StepObserver::ask_for_origin(engine::OpFrame& frame, const iteration::OpSignature& signature,
                                  engine::OpRequests& requests) {
  requests.is_origin_wanted = true;
  frame.begun.origin_key = origins_.key_of_next(signature);
  if (const iteration::OpOrigin* known = origins_.find(*frame.begun.origin_key))
    requests.known_origin = *known;
}

// Of an op that is not recorded, where the pattern's op comes from.
iteration::OpOrigin StepObserver::origin_of(const engine::OpFrame& frame,
                                            const engine::OpFacts& facts,
                                            trace::OpIndex position) const {
  if (frame.begun.origin_key) return facts.origin.value_or(iteration::OpOrigin());
  const std::vector<iteration::OpOrigin>& origins = engine_.plan().schedule().profile().origins;
  const bool is_known = position != iteration::kLost && !origins.empty();
  return is_known ? origins[static_cast<size_t>(position)] : iteration::OpOrigin();
}

void StepObserver::add_to_timeline(const engine::OpFrame& frame, std::string_view name,
                                   const engine::OpFacts& facts, trace::OpIndex position) {
  timeline_->add_op({.name = name,
                     .position = position,
                     .origin = origin_of(frame, facts, position),
                     .thread = engine::thread_tag(),
                     .start_ns = frame.begun.start->time_ns + facts.own_work_ns,
                     .end_ns = timeline_->now_ns(),
                     .device_bytes_at_start = frame.begun.start->device_bytes,
                     .device_bytes = options_.device->allocated_bytes(),
                     .offloaded_bytes = engine_.amounts().offloaded_bytes});
}

int64_t StepObserver::note_end(const engine::OpFrame& frame, const engine::OpFacts& facts) {
  if (frame.begun.origin_key && facts.origin) origins_.set(*frame.begun.origin_key, *facts.origin);
  const bool is_sample_due = log_.is_sample_due();
  if (!is_sample_due && !op_times_.is_timed()) return 0;
  const int64_t now_ns = options_.clock->now_ns();
  if (is_sample_due) log_.add_sample(now_ns);
  return op_times_.is_timed() ? op_times_.end_op(now_ns, engine_.counters().stall_ns()) : 0;
}

void StepObserver::note_replay(const engine::Recipe& recipe, int64_t start_ns) {
  if (timeline_ == nullptr) return;
  for (const engine::LiveTensor* result : recipe.results)
    if (result != nullptr) return timeline_->add_replay(*result, start_ns);
}

void StepObserver::start_iteration(bool is_recorded, bool are_times_wanted) {
  if (is_recorded) origins_.start_iteration();
  engine::Timeline* timeline = options_.timeline;
  const bool is_on = timeline != nullptr && timeline->start_step(log_.iteration_count());
  timeline_ = is_on ? timeline : nullptr;
  const int64_t now_ns = options_.clock->now_ns();
  log_.start_iteration(now_ns, engine_.counters());
  op_times_.start_iteration(now_ns, engine_.counters().stall_ns(), are_times_wanted);
}

void StepObserver::join_iterations(std::span<const int64_t> counts) {
  if (counts.empty()) return;
  log_.join(counts);
  if (options_.timeline != nullptr) options_.timeline->forget_steps();
  timeline_ = nullptr;
}

void StepObserver::end_iteration(const EndedIteration& ended) {
  const int64_t end_ns = options_.clock->now_ns();
  log_.end_iteration(end_ns, engine_.counters(), ended.op_count, ended.planned_op_count,
                     ended.mode);
  if (timeline_ != nullptr) timeline_->end_step(end_ns, ended.mode);
  op_count_ += ended.op_count;
  planned_op_count_ += ended.planned_op_count;
  op_times_.end_iteration(log_.iteration_count(), ended.is_repeated,
                          ended.is_repeated || ended.is_known);
}

}  // namespace teraio::runtime
