// Run: the result of simulating one iteration in steady state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace teraio::simulate {

// One migration that has ended. Times count from the start of the iteration; those of a migration
// that began in the iteration before are negative.
struct TransferRecord {
  trace::TensorIndex tensor = 0;
  plan::Action action = plan::Action::kOffload;
  plan::Tier tier = plan::Tier::kSsd;
  int64_t issue_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;

  bool operator==(const TransferRecord&) const = default;
};

// One replay of an op, which restored tensors that the plan had discarded.
struct ReplayRecord {
  trace::OpIndex op = 0;         // it runs again ...
  trace::OpIndex before_op = 0;  // ... before this one
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t workspace_bytes = 0;  // with the outputs that it does not restore
  std::vector<trace::TensorIndex> restores;
  int64_t temporary_bytes = 0;   // made for other replays before the same op ...
  int64_t temporary_end_ns = 0;  // ... of which the last one ends then

  bool operator==(const ReplayRecord&) const = default;
};

struct DiscardRecord {
  trace::TensorIndex tensor = 0;
  int64_t time_ns = 0;

  bool operator==(const DiscardRecord&) const = default;
};

// A time in which no op runs, and why. Neighbours may touch where the cause changes.
struct StallRecord {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string_view cause;  // a key of Run::stall_by_cause_ns

  bool operator==(const StallRecord&) const = default;
};

// A value type. Bytes are per iteration; reads move them to the device.
struct Run {
  int64_t ideal_ns = 0;  // the sum of the durations of all ops
  int64_t step_ns = 0;
  int64_t replay_ns = 0;                             // the sum of the durations of all replays
  int64_t stall_ns = 0;                              // step_ns - ideal_ns - replay_ns
  std::map<std::string, int64_t> stall_by_cause_ns;  // the keys are kStallRead ... of simulator.h
  int64_t ssd_bytes_written = 0;
  int64_t ssd_bytes_read = 0;
  int64_t host_bytes_written = 0;
  int64_t host_bytes_read = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  int64_t ssd_peak_bytes = 0;
  std::vector<int64_t> op_start_ns;       // per op; empty when not recorded
  std::vector<TransferRecord> transfers;  // in the order in which they ended
  std::vector<ReplayRecord> replays;      // in order
  std::vector<DiscardRecord> discards;    // in order
  std::vector<StallRecord> stalls;        // in order; they add up to stall_ns

  bool operator==(const Run&) const = default;
};

// Returns ideal_ns / step_ns; 1 for a step that takes no time.
double fraction_of_ideal(const Run& run);

// The stall before an op or a replay.
struct Wait {
  trace::OpIndex op = 0;  // that runs next, or that the replay precedes
  int64_t end_ns = 0;
  int64_t stall_ns = 0;

  bool operator==(const Wait&) const = default;
};

// Returns the waits of at least one nanosecond, in order. Requires that `run` has op_start_ns and
// is a run of `trace`.
std::vector<Wait> waits_of(const Run& run, const trace::Trace& trace);

// Returns the stall before each op and its replays: the sum of their waits.
// Requires that `run` has op_start_ns and is a run of `trace`.
std::vector<int64_t> stall_of_ops(const Run& run, const trace::Trace& trace);

}  // namespace teraio::simulate
