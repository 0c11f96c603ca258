#include "engine/timeline.h"

#include <algorithm>

#include "engine/thread_tag.h"

namespace teraio::engine {

Timeline::Timeline(const TimelineSteps& steps, const Clock& clock, size_t ops_max)
    : steps_(steps),
      clock_(clock),
      whole_steps_(kOthersMax),
      ops_(ops_max),
      stalls_(kOthersMax),
      transfers_(kOthersMax),
      replays_(kOthersMax) {}

bool Timeline::start_step(int64_t index) {
  step_index_ = index;
  step_start_ns_ = clock_.now_ns();
  is_on_ = index >= steps_.begin && index < steps_.end;
  // The clocks drift apart, so what counts is their difference at the steps that are recorded.
  if (is_on_) unix_offset_ns_ = unix_offset_ns(clock_);
  return is_on_;
}

void Timeline::end_step(int64_t end_ns, IterationRecord::Mode mode) {
  if (is_on_) whole_steps_.add({step_index_, step_start_ns_, end_ns, mode});
}

TensorLabel Timeline::label_of(const LiveTensor& tensor) {
  if (schedule_ == nullptr || tensor.planned.profile_index < 0) return {};
  const trace::Tensor& known =
      schedule_->profile().trace.tensors[static_cast<size_t>(tensor.planned.profile_index)];
  return {*names_.insert(known.name).first, known.kind};
}

void Timeline::add_stall(StallCause cause, int64_t start_ns, int64_t end_ns) {
  stalls_.add({cause, thread_tag(), start_ns, end_ns});
}

void Timeline::add_transfer(const LiveTensor& tensor, io::Direction direction,
                            const storage::Completion& completion) {
  for (const storage::DrivePart& part : completion.parts)
    transfers_.add({.tensor = tensor.transfer.label,
                    .id = tensor.id,
                    .action = direction == io::Direction::kRead ? plan::Action::kPrefetch
                                                                : plan::Action::kOffload,
                    .tier = tensor.transfer.tier,
                    .drive = part.drive,
                    .is_urgent = tensor.transfer.is_urgent,
                    .error = completion.status.code(),
                    .size_bytes = part.moved_bytes,
                    .submit_ns = completion.submit_ns,
                    .start_ns = part.start_ns,
                    .end_ns = part.end_ns});
}

void Timeline::add_departure(const LiveTensor& tensor, plan::Action action) {
  const int64_t now_ns = clock_.now_ns();
  transfers_.add({.tensor = label_of(tensor),
                  .id = tensor.id,
                  .action = action,
                  .size_bytes = tensor.size_bytes,
                  .submit_ns = now_ns,
                  .start_ns = now_ns,
                  .end_ns = now_ns});
}

void Timeline::add_replay(const LiveTensor& made, int64_t start_ns) {
  replays_.add({label_of(made), made.id, start_ns, clock_.now_ns()});
}

// Of the newest steps that are asked for; 0: everything is.
int64_t Timeline::start_of_record_ns() const {
  if (steps_.begin >= 0) return 0;
  for (const StepSpan& step : whole_steps_.values())
    if (step.index >= step_index_ + steps_.begin) return step.start_ns;
  return step_start_ns_;
}

// Removes what had ended at `start_ns`.
template <typename Span>
std::vector<Span> ended_since(int64_t start_ns, std::vector<Span> spans) {
  std::erase_if(spans, [start_ns](const Span& span) { return span.end_ns <= start_ns; });
  return spans;
}

// All spans that ended after this time are there; 0: all are.
template <typename Span>
int64_t complete_since_ns(const Ring<Span>& ring) {
  if (!ring.has_lost()) return 0;
  return ring.values().front().end_ns - 1;
}

TimelineRecord Timeline::record() const {
  const int64_t wanted_ns = start_of_record_ns();
  const int64_t complete_ns =
      std::max({complete_since_ns(ops_), complete_since_ns(stalls_), complete_since_ns(transfers_),
                complete_since_ns(replays_)});
  TimelineRecord record;
  record.start_ns = std::max(wanted_ns, complete_ns);
  record.is_cut = complete_ns > wanted_ns;
  record.steps = ended_since(record.start_ns, whole_steps_.values());
  record.ops = ended_since(record.start_ns, ops_.values());
  record.stalls = ended_since(record.start_ns, stalls_.values());
  record.transfers = ended_since(record.start_ns, transfers_.values());
  record.replays = ended_since(record.start_ns, replays_.values());
  record.unix_offset_ns = unix_offset_ns_;
  return record;
}

}  // namespace teraio::engine
