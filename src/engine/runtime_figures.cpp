// What a Runtime tells the session about the run. Each call takes the lock once.
#include <utility>

#include "engine/engine.h"
#include "engine/pattern_tracker.h"
#include "engine/runtime.h"

namespace teraio::engine {

std::optional<trace::Trace> Runtime::trace() const {
  const std::lock_guard lock(mutex_);
  if (engine_->schedule().is_empty()) return std::nullopt;
  return engine_->schedule().profile().trace;
}

bool Runtime::has_trace() const {
  const std::lock_guard lock(mutex_);
  return !engine_->schedule().is_empty();
}

std::string Runtime::trace_name() const {
  const std::lock_guard lock(mutex_);
  return engine_->schedule().profile().trace.name;
}

std::optional<plan::Plan> Runtime::current_plan() const {
  const std::lock_guard lock(mutex_);
  return engine_->schedule().plan();
}

std::vector<PatternSummary> Runtime::patterns() const {
  const std::lock_guard lock(mutex_);
  return patterns_->patterns();
}

std::vector<Difference> Runtime::differences() const {
  const std::lock_guard lock(mutex_);
  return patterns_->differences().differences();
}

PlanningCounters Runtime::planning_counters() const {
  const std::lock_guard lock(mutex_);
  PlanningCounters counters = planning_counters_;
  counters.plans_made = patterns_->plan_count();
  counters.planning_ns = patterns_->planning_ns();
  counters.is_planning = patterns_->is_planning();
  return counters;
}

std::vector<IterationRecord> Runtime::iterations(size_t first) const {
  const std::lock_guard lock(mutex_);
  return log_.iterations(first);
}

std::vector<MemorySample> Runtime::memory_timeline() const {
  const std::lock_guard lock(mutex_);
  return log_.samples();
}

EngineCounters Runtime::counters() const {
  const std::lock_guard lock(mutex_);
  return engine_->counters();
}

device::MemoryUsage Runtime::memory_usage() const {
  const std::lock_guard lock(mutex_);
  return options_.engine.device->usage();
}

int64_t Runtime::deviation_count() const {
  const std::lock_guard lock(mutex_);
  return patterns_->deviation_count();
}

int64_t Runtime::unmovable_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_->unmovable_bytes() + outside_bytes_;
}

int64_t Runtime::permanently_pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_->permanently_pinned_bytes() + outside_bytes_;
}

int64_t Runtime::outside_bytes() const {
  const std::lock_guard lock(mutex_);
  return outside_bytes_;
}

int64_t Runtime::offloaded_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_->offloaded_bytes();
}

int64_t Runtime::discarded_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_->discarded_bytes();
}

bool Runtime::has_transfers() const {
  const std::lock_guard lock(mutex_);
  return engine_->has_transfers();
}

int64_t Runtime::unanswered_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_->unanswered_bytes();
}

Status Runtime::planning_status() const {
  const std::lock_guard lock(mutex_);
  return patterns_->planning_status();
}

bool Runtime::is_following_plan() const {
  const std::lock_guard lock(mutex_);
  return patterns_->is_planned() && patterns_->is_following();
}

}  // namespace teraio::engine
