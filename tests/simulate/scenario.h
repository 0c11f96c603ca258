// Small traces and machines for tests, in round numbers: a drive and the host move 1 byte per ns
// each way, the link 100, and requests have no latency, unless a test says otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/scenario.h"
#include "trace/trace.h"

namespace teraio::testing {

inline constexpr int64_t kBytesPerNs = 1'000'000'000;

inline hardware::Hardware round_machine(int64_t device_memory_bytes, int64_t host_bytes = 0) {
  hardware::Hardware hardware = machine(device_memory_bytes, host_bytes);
  hardware.drives[0].capacity_bytes = 1'000'000'000;
  return hardware;
}

struct OpOptions {
  std::vector<trace::TensorIndex> reads = {};
  std::vector<trace::TensorIndex> writes = {};
  std::vector<trace::TensorIndex> frees = {};
  int64_t workspace_bytes = 0;
  bool replayable = false;
};

// Builds a trace tensor by tensor and op by op; both are named by their position.
class TraceBuilder {
 public:
  TraceBuilder() = default;
  explicit TraceBuilder(trace::Trace trace) : trace_(std::move(trace)) {}
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
                          options.writes, options.frees, options.workspace_bytes,
                          options.replayable});
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

// Two frozen weights of 1000 bytes that take turns: with room for one, a step reads 2000 bytes
// beside 200 ns of compute.
inline trace::Trace two_weights_in_turn() {
  TraceBuilder builder;
  const trace::TensorIndex a = builder.persistent(1000);
  const trace::TensorIndex b = builder.persistent(1000);
  builder.op(100, {.reads = {a}});
  builder.op(100, {.reads = {b}});
  return builder.trace();
}

}  // namespace teraio::testing
