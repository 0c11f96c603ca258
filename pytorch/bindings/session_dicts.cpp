#include "bindings/session_dicts.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace teraio::pytorch {

using namespace py::literals;  // "name"_a = value is an entry of a dict

namespace {

const char* mode_name(engine::IterationRecord::Mode mode) {
  switch (mode) {
    case engine::IterationRecord::Mode::kOnDemand:
      return "on demand";
    case engine::IterationRecord::Mode::kPlanned:
      return "planned";
    case engine::IterationRecord::Mode::kDeviated:
      return "deviated";
  }
  return "unknown";
}

const char* kind_name(learn::Difference::Kind kind) {
  switch (kind) {
    case learn::Difference::Kind::kOps:
      return "ops";
    case learn::Difference::Kind::kSizes:
      return "sizes";
    case learn::Difference::Kind::kEnd:
      return "end";
  }
  return "unknown";
}

}  // namespace

py::dict to_dict(const device::MemoryUsage& usage) {
  return py::dict("device_budget_bytes"_a = usage.budget_bytes,
                  "device_bytes"_a = usage.allocated_bytes,
                  "device_peak_bytes"_a = usage.allocated_peak_bytes,
                  "device_reserved_bytes"_a = usage.reserved_bytes,
                  "device_reserved_peak_bytes"_a = usage.reserved_peak_bytes,
                  "device_rounding_bytes"_a = usage.rounding_bytes,
                  "device_largest_free_bytes"_a = usage.largest_free_bytes);
}

py::dict to_dict(const engine::EngineCounters& c) {
  return py::dict(
      "planned_offloads"_a = c.planned_offloads, "planned_drops"_a = c.planned_drops,
      "planned_prefetches"_a = c.planned_prefetches, "skipped_migrations"_a = c.skipped_migrations,
      "on_demand_offloads"_a = c.on_demand_offloads, "on_demand_drops"_a = c.on_demand_drops,
      "urgent_reads"_a = c.urgent_reads, "late_prefetches"_a = c.late_prefetches,
      "failed_transfers"_a = c.failed_transfers, "relocations"_a = c.relocations,
      "relocated_bytes"_a = c.relocated_bytes, "discards"_a = c.replays.discards,
      "planned_replays"_a = c.replays.planned, "on_demand_replays"_a = c.replays.on_demand,
      "banned_replays"_a = c.replays.banned, "verified_replays"_a = c.replays.verified,
      "differing_replays"_a = c.replays.differing, "replay_ns"_a = c.replays.duration_ns,
      "stall_read_ns"_a = c.stall_read_ns, "stall_memory_ns"_a = c.stall_memory_ns);
}

py::dict to_dict(const storage::DriveCounters& drive) {
  return py::dict("name"_a = drive.name, "io_path"_a = drive.io_path,
                  "gpu_direct_off"_a = drive.gpu_direct_off,
                  "gpu_direct_bytes_read"_a = drive.gpu_direct_bytes_read,
                  "gpu_direct_bytes_written"_a = drive.gpu_direct_bytes_written,
                  "bytes_read"_a = drive.bytes_read, "bytes_written"_a = drive.bytes_written,
                  "read_busy_ns"_a = drive.read_busy_ns, "write_busy_ns"_a = drive.write_busy_ns,
                  "read_bytes_per_second"_a = drive.recent_rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = drive.recent_rates.write_bytes_per_second,
                  "error_count"_a = drive.error_count,
                  "unanswered_count"_a = drive.unanswered_count, "slowdown"_a = drive.slowdown);
}

py::dict to_dict(const engine::IterationRecord& record) {
  return py::dict("duration_ns"_a = record.duration_ns, "stall_read_ns"_a = record.stall_read_ns,
                  "stall_memory_ns"_a = record.stall_memory_ns,
                  "ssd_bytes_read"_a = record.ssd_bytes_read,
                  "ssd_bytes_written"_a = record.ssd_bytes_written,
                  "host_bytes_read"_a = record.host_bytes_read,
                  "host_bytes_written"_a = record.host_bytes_written,
                  "device_peak_bytes"_a = record.device_peak_bytes, "op_count"_a = record.op_count,
                  "planned_op_count"_a = record.planned_op_count, "pattern"_a = record.pattern,
                  "mode"_a = mode_name(record.mode));
}

py::dict to_dict(const learn::PatternSummary& pattern) {
  return py::dict("id"_a = pattern.id, "name"_a = pattern.name, "op_count"_a = pattern.op_count,
                  "iterations"_a = pattern.iteration_count, "ops"_a = pattern.ops_run,
                  "planned_ops"_a = pattern.ops_planned, "plans"_a = pattern.plan_count,
                  "is_planned"_a = pattern.plan_count > 0, "is_irregular"_a = pattern.is_irregular,
                  "size_bytes"_a = pattern.size_bytes);
}

py::dict to_dict(const learn::Difference& difference) {
  py::dict d("kind"_a = kind_name(difference.kind), "pattern"_a = difference.pattern,
             "position"_a = difference.position, "op"_a = difference.op,
             "expected_op"_a = difference.expected_op, "parameter"_a = difference.parameter,
             "location"_a = difference.location, "iterations"_a = difference.iteration_count);
  if (difference.kind == learn::Difference::Kind::kSizes)
    update(d, py::dict("expected_bytes"_a = difference.expected_bytes,
                       "smallest_bytes"_a = difference.smallest_bytes,
                       "largest_bytes"_a = difference.largest_bytes));
  return d;
}

py::dict to_dict(const runtime::PlanningCounters& c) {
  return py::dict("ops"_a = c.ops, "planned_ops"_a = c.planned_ops,
                  "plans_made"_a = c.work.plans_made, "planning_ns"_a = c.work.planning_ns,
                  "is_planning"_a = c.work.is_planning, "search_ns"_a = c.work.search_ns,
                  "is_searching"_a = c.work.is_searching);
}

py::dict to_dict(const learn::PlanFacts& plan) {
  return py::dict("is_found_by_search"_a = plan.is_found, "plan_from_step"_a = plan.from_step,
                  "predicted_gain"_a = plan.gain, "first_timed_step"_a = plan.first_timed_step,
                  "last_timed_step"_a = plan.last_timed_step);
}

py::dict to_dict(const Rates& rates) {
  return py::dict("read_bytes_per_second"_a = rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = rates.write_bytes_per_second);
}

py::dict to_dict(const runtime::DriveShare& share) {
  return py::dict("name"_a = share.drive.name, "directory"_a = share.directory.string(),
                  "ranks"_a = share.rank_count, "capacity_bytes"_a = share.drive.capacity_bytes,
                  "rated_bytes_written"_a = share.drive.rated_bytes_written,
                  "read_bytes_per_second"_a = share.drive.rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = share.drive.rates.write_bytes_per_second);
}

py::dict to_dict(const storage::TierCounters& c, const std::string& tier) {
  py::dict d;
  d[py::str(tier + "_bytes_read")] = c.bytes_read;
  d[py::str(tier + "_bytes_written")] = c.bytes_written;
  d[py::str(tier + "_reserved_peak_bytes")] = c.reserved_peak_bytes;
  if (c.segments.registered_count > 0 || c.segments.refused_count > 0)
    update(d, py::dict("gpu_direct_segments"_a = c.segments.registered_count,
                       "gpu_direct_registered_bytes"_a = c.segments.registered_bytes,
                       "gpu_direct_refused_segments"_a = c.segments.refused_count));
  if (!c.drives.empty()) d[py::str(tier + "_drives")] = to_dicts(c.drives);
  return d;
}

py::dict to_dict(const runtime::Prediction& prediction) {
  return py::dict("ideal_ns"_a = prediction.ideal_ns, "step_ns"_a = prediction.step_ns,
                  "flops"_a = prediction.flops, "is_kept_plan"_a = prediction.is_kept,
                  "device_budget_bytes"_a = prediction.limits.device_budget_bytes,
                  "write_budget_bytes"_a = prediction.limits.write_budget_bytes);
}

}  // namespace teraio::pytorch
