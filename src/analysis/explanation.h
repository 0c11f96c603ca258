// Explanation: where the time of a run goes, by phase of the iteration and by kind of tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::analysis {

// A run of ops in which memory grows ("forward"), shrinks ("backward"), or parameters are written
// ("update"), told by the trace alone.
struct Phase {
  std::string name;
  trace::OpIndex first_op = 0;
  trace::OpIndex last_op = 0;
  bool operator==(const Phase&) const = default;
};

// Covers all ops in order.
std::vector<Phase> phases_of(const trace::Trace& trace);

struct StallShare {
  std::string what;
  int64_t compute_ns = 0;  // of a phase's ops; 0 where it has no meaning
  int64_t stall_ns = 0;
  bool operator==(const StallShare&) const = default;
};

// Per phase, in order; stalls count for the op that waits. `run` must have op_start_ns.
std::vector<StallShare> stall_by_phase(const simulate::Run& run, const trace::Trace& trace);

// Per transfer that an op waited for last, such as "read of parameter from ssd", the largest share
// first. They sum up to the run's stall.
std::vector<StallShare> stall_by_transfer(const simulate::Run& run, const trace::Trace& trace);

}  // namespace teraio::analysis
