// What a Runtime tells of a run. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "engine/engine_counters.h"
#include "engine/iteration_log.h"
#include "learn/difference_log.h"
#include "learn/pattern_tracker.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::runtime {

struct PlanningCounters {
  int64_t ops = 0;          // that have begun, in whole iterations
  int64_t planned_ops = 0;  // those of them that followed a plan
  learn::PlanningWork work;
};

struct RunFigures {
  device::MemoryUsage memory;
  engine::EngineCounters counters;
  PlanningCounters planning;
  std::string trace_name;                // of the pattern that is followed; empty: none is
  std::optional<learn::PlanFacts> plan;  // of the plan that is followed; nothing without one
  int64_t iteration_count = 0;
  int64_t deviation_count = 0;
  // The most that the program has held so far, wherever that was: what it takes without TERAIO.
  int64_t natural_peak_bytes = 0;
  int64_t outside_bytes = 0;
  int64_t permanently_pinned_bytes = 0;  // with those outside
  // Resident bytes that can never leave: small, foreign, pinned, not used yet, or outside. 0 unless
  // they were asked for.
  int64_t unmovable_bytes = 0;
  int64_t offloaded_bytes = 0;
  int64_t discarded_bytes = 0;
  int64_t unanswered_bytes = 0;  // of device memory that drives without an answer may still use
  bool is_following_plan = false;
  // False after stop() or discard() when nobody needs the stores any more.
  bool uses_stores = true;
  // Transfers use the stores, the device's memory and the runtime. After stop() or discard(): a
  // drive hangs.
  bool has_transfers = false;
};

// What was learned of the program. Copying it takes time.
struct RunKnowledge {
  // Of the pattern that is followed.
  std::optional<trace::Trace> trace;
  // Of the last iteration, whether or not it is followed; nullopt: its pattern is not known.
  std::optional<trace::Trace> last_trace;
  std::optional<plan::Plan> plan;
  // Why that pattern has no plan; ok when it has one, or is being planned.
  Status planning_status;
  // The patterns of the program's iterations that are kept, in the order in which they came.
  std::vector<learn::PatternSummary> patterns;
  // How iterations have differed from them, in the order in which that was seen.
  std::vector<learn::Difference> differences;
  // Device memory over the last whole iteration: one sample at each op's end at which it changed.
  std::vector<engine::MemorySample> memory;
};

}  // namespace teraio::runtime
