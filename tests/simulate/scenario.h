// Small traces and machines for tests, in round numbers: a drive and the host move 1 byte per ns
// each way, the link 100, and requests have no latency, unless a test says otherwise.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::testing {

inline constexpr int64_t kBytesPerNs = 1'000'000'000;

inline hardware::Hardware round_machine(int64_t device_memory_bytes, int64_t host_bytes = 0) {
  hardware::Hardware hardware;
  hardware.name = "round";
  hardware.device_memory_bytes = device_memory_bytes;
  hardware.device_link = {100 * kBytesPerNs, 100 * kBytesPerNs};
  hardware.host = {host_bytes, {kBytesPerNs, kBytesPerNs}};
  hardware.drives = {{"d0", 1'000'000'000, {kBytesPerNs, kBytesPerNs}, 2.0, {}}};
  return hardware;
}

struct OpOptions {
  std::vector<trace::TensorIndex> reads = {};
  std::vector<trace::TensorIndex> writes = {};
  std::vector<trace::TensorIndex> frees = {};
  int64_t workspace_bytes = 0;
};

// Builds a trace tensor by tensor and op by op; both are named by their position.
class TraceBuilder {
 public:
  trace::TensorIndex persistent(int64_t size_bytes,
                                trace::TensorKind kind = trace::TensorKind::kParameter) {
    return add(size_bytes, true, kind);
  }
  trace::TensorIndex transient(int64_t size_bytes,
                               trace::TensorKind kind = trace::TensorKind::kActivation) {
    return add(size_bytes, false, kind);
  }
  trace::OpIndex op(int64_t duration_ns, OpOptions options = {}) {
    trace_.ops.push_back({"op" + std::to_string(trace_.ops.size()), duration_ns, options.reads,
                          options.writes, options.frees, options.workspace_bytes});
    return static_cast<trace::OpIndex>(trace_.ops.size()) - 1;
  }
  const trace::Trace& trace() const { return trace_; }

 private:
  trace::TensorIndex add(int64_t size_bytes, bool persistent, trace::TensorKind kind) {
    const auto index = static_cast<trace::TensorIndex>(trace_.tensors.size());
    trace_.tensors.push_back({index, size_bytes, persistent, kind, ""});
    return index;
  }
  trace::Trace trace_{"test", "modelled", {}, {}};
};

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

}  // namespace teraio::testing
