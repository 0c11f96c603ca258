// Small traces and machines to plan for, in round numbers, and the files in tests/data.
#pragma once

#include <vector>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"
#include "trace/trace_file.h"

namespace teraio::testing {

// The tier moves 1 byte per ns each way.
inline hardware::Hardware machine(int64_t device_memory_bytes, int64_t host_bytes = 0) {
  constexpr int64_t kRate = 1'000'000'000;
  hardware::Hardware hardware;
  hardware.name = "machine";
  hardware.device_memory_bytes = device_memory_bytes;
  hardware.device_link = {100 * kRate, 100 * kRate};
  hardware.host = {host_bytes, {kRate, kRate}};
  hardware.drives = {{"d0", 1'000'000, {kRate, kRate}, 2.0, {}}};
  return hardware;
}

inline trace::Tensor tensor(int64_t id, int64_t size_bytes, bool persistent) {
  return {id, size_bytes, persistent, trace::TensorKind::kOther, ""};
}

inline trace::Op op(std::vector<trace::TensorIndex> reads,
                    std::vector<trace::TensorIndex> writes = {},
                    std::vector<trace::TensorIndex> frees = {}, int64_t duration_ns = 100) {
  return {"op", duration_ns, std::move(reads), std::move(writes), std::move(frees), 0};
}

// A weight W (tensor 0, written at op 4) idle in 1..3 and over the end, and an activation A
// (tensor 1) that lives in 1..3 with a gap at op 2, where the transient B (tensor 2) comes and
// goes:
//
//   op   0   1   2   3   4   5
//   W    r   .   .   .   W   .
//   A        W   .   r
//   B            W
inline trace::Trace weight_and_activation() {
  return {"test",
          "modelled",
          {tensor(10, 60, true), tensor(11, 40, false), tensor(12, 50, false)},
          {op({0}), op({}, {1}), op({}, {2}, {2}), op({1}, {}, {1}), op({}, {0}), op({})}};
}

inline plan::Migration offload(trace::TensorIndex tensor, trace::OpIndex trigger,
                               trace::OpIndex deadline, plan::Tier tier = plan::Tier::kSsd) {
  return {tensor, plan::Action::kOffload, trigger, deadline, tier};
}
inline plan::Migration prefetch(trace::TensorIndex tensor, trace::OpIndex trigger,
                                trace::OpIndex deadline, plan::Tier tier = plan::Tier::kSsd) {
  return {tensor, plan::Action::kPrefetch, trigger, deadline, tier};
}
inline plan::Migration drop(trace::TensorIndex tensor, trace::OpIndex trigger,
                            trace::OpIndex deadline, plan::Tier tier = plan::Tier::kSsd) {
  return {tensor, plan::Action::kDrop, trigger, deadline, tier};
}

inline plan::Migration discard(trace::TensorIndex tensor, trace::OpIndex trigger) {
  return {tensor, plan::Action::kDiscard, trigger, trigger};
}
inline plan::Migration recompute(trace::TensorIndex tensor, trace::OpIndex op) {
  return {tensor, plan::Action::kRecompute, op, op};
}

}  // namespace teraio::testing
