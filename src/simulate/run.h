// Run: the result of simulating one iteration in steady state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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

// A value type. Bytes are per iteration; reads move them to the device.
struct Run {
  int64_t ideal_ns = 0;  // the sum of the durations of all ops
  int64_t step_ns = 0;
  int64_t stall_ns = 0;                              // step_ns - ideal_ns
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

  bool operator==(const Run&) const = default;
};

// Returns ideal_ns / step_ns; 1 for a step that takes no time.
double fraction_of_ideal(const Run& run);

// Returns the stall before each op: the time from the end of its predecessor. Requires that `run`
// has op_start_ns and is a run of `trace`.
std::vector<int64_t> stall_of_ops(const Run& run, const trace::Trace& trace);

}  // namespace teraio::simulate
