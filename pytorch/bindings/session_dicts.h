// The values of a session as Python's dicts. Any thread, with the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "base/rates.h"
#include "device/device.h"
#include "engine/engine_counters.h"
#include "engine/iteration_log.h"
#include "learn/difference_log.h"
#include "learn/pattern_tracker.h"
#include "runtime/prediction.h"
#include "runtime/run_drives.h"
#include "runtime/runtime.h"
#include "storage/tier_store.h"

namespace teraio::pytorch {

pybind11::dict to_dict(const device::MemoryUsage& usage);
pybind11::dict to_dict(const engine::EngineCounters& c);
pybind11::dict to_dict(const runtime::PlanningCounters& c);
pybind11::dict to_dict(const storage::DriveCounters& drive);
pybind11::dict to_dict(const engine::IterationRecord& record);
pybind11::dict to_dict(const learn::PatternSummary& pattern);
pybind11::dict to_dict(const learn::Difference& difference);
pybind11::dict to_dict(const Rates& rates);
pybind11::dict to_dict(const runtime::DriveShare& share);
pybind11::dict to_dict(const learn::PlanFacts& plan);
pybind11::dict to_dict(const runtime::Prediction& prediction);
// Returns the counters of a tier under names that begin with `tier`, and those of its drives if it
// has any.
pybind11::dict to_dict(const storage::TierCounters& c, const std::string& tier);

// Returns a list with the dict of each value.
template <typename Values>
pybind11::list to_dicts(const Values& values) {
  pybind11::list list;
  for (const auto& value : values) list.append(to_dict(value));
  return list;
}

// Adds `entries` to `target`.
inline void update(pybind11::dict& target, const pybind11::dict& entries) {
  target.attr("update")(entries);
}

}  // namespace teraio::pytorch
