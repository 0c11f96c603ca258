// Run: what happened in one iteration, simulated or real: the two are compared line by line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace teraio::simulate {

struct TransferRecord {
  trace::TensorIndex tensor = 0;
  plan::Action action = plan::Action::kOffload;
  plan::Tier tier = plan::Tier::kSsd;
  int64_t issue_ns = 0;  // times from the iteration's start
  int64_t start_ns = 0;
  int64_t end_ns = 0;

  bool operator==(const TransferRecord&) const = default;
};

struct Run {
  int64_t ideal_ns = 0;  // sum of the ops' durations
  int64_t step_ns = 0;
  int64_t stall_ns = 0;                              // step_ns - ideal_ns
  std::map<std::string, int64_t> stall_by_cause_ns;  // "read", "memory", ...
  int64_t ssd_bytes_written = 0;
  int64_t ssd_bytes_read = 0;
  int64_t host_bytes_written = 0;
  int64_t host_bytes_read = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  int64_t ssd_peak_bytes = 0;
  std::vector<int64_t> op_start_ns;  // per op; empty when not recorded
  std::vector<TransferRecord> transfers;

  bool operator==(const Run&) const = default;
};

}  // namespace teraio::simulate
