// Characterization: the device memory that a training step uses, how long its tensors are idle, and
// the migration bandwidth that would suffice.
//
// Value types and pure functions, except for the file; any thread may call them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "trace/trace.h"

namespace teraio::analysis {

inline constexpr int64_t kLongIdleNs = 10'000'000;
inline constexpr int64_t kMiddleSizeBytes = 10'000'000;  // smallest "middle" tensor
inline constexpr int64_t kLargeSizeBytes = 100'000'000;
inline constexpr int64_t kHugeSizeBytes = 1'000'000'000;  // largest "middle" tensor

// The bytes that exist while an op runs, and the bytes that it uses: the tensors that it reads and
// writes, and its workspace.
struct OpMemory {
  int64_t all_bytes = 0;
  int64_t active_bytes = 0;
  bool operator==(const OpMemory&) const = default;
};

struct PhaseMemory {
  std::string name;  // "forward", "backward", "update", or "whole step"
  int64_t op_count = 0;
  int64_t duration_ns = 0;
  int64_t all_bytes_max = 0;
  int64_t active_bytes_max = 0;
  double active_bytes_mean = 0;          // over ops
  double active_bytes_mean_in_time = 0;  // over time
  bool operator==(const PhaseMemory&) const = default;
};

// The tensors of one kind that ops use, and their inactive periods between two uses.
struct KindSummary {
  std::string kind;  // a TensorKind's name, or "all"
  int64_t tensor_count = 0;
  int64_t middle_count = 0;  // tensors of kMiddleSizeBytes to kHugeSizeBytes
  int64_t large_count = 0;   // of kLargeSizeBytes and more
  int64_t period_count = 0;
  int64_t long_period_count = 0;         // longer than kLongIdleNs
  int64_t long_tensor_count = 0;         // tensors that have such a period
  int64_t long_middle_tensor_count = 0;  // middle tensors that have such a period
  int64_t median_bytes = 0;              // of the tensors
  int64_t median_idle_ns = 0;            // of the periods
  bool operator==(const KindSummary&) const = default;
};

// A cell of a histogram: the number of periods of a kind between these lower bounds and those of
// the next cells. Ten cells cover a power of ten, so that the number of cells does not grow with
// the trace.
struct PeriodCell {
  trace::TensorKind kind = trace::TensorKind::kOther;
  double size_bytes_from = 0;
  double idle_ns_from = 0;
  int64_t period_count = 0;
  bool operator==(const PeriodCell&) const = default;
};

struct IdleTensor {
  trace::TensorIndex tensor = 0;
  std::string label;  // its name, or its id and the first op that uses it
  int64_t longest_idle_ns = 0;
  int64_t use_count = 0;
  bool operator==(const IdleTensor&) const = default;
};

// What follows from the trace alone, on every machine.
struct Characterization {
  int64_t step_ns = 0;
  std::vector<OpMemory> ops;
  std::vector<PhaseMemory> phases;  // in order; the last entry is the whole step
  std::vector<KindSummary> kinds;   // the kinds that occur; the last entry is all of them
  std::vector<PeriodCell> cells;
  std::vector<IdleTensor> largest;       // largest first
  std::vector<IdleTensor> longest_idle;  // longest first, in steps of 1 % of the step; then largest
};

struct KindBytes {
  trace::TensorKind kind = trace::TensorKind::kOther;
  int64_t size_bytes = 0;
  bool operator==(const KindBytes&) const = default;
};

// The first op at which the most memory is in use, and the contents of the memory at that op.
struct PeakMemory {
  trace::OpIndex op = 0;
  std::vector<KindBytes> kinds;  // largest first; kWorkspace includes the workspace of the op
  bool operator==(const PeakMemory&) const = default;
};

// Requires validate(trace).ok() and at least one op. Takes time in proportion to the size of the
// trace.
PeakMemory memory_at_peak(const trace::Trace& trace);

// `tensor_count`: how many tensors to list in `largest` and in `longest_idle`. Requires
// validate(trace).ok().
Characterization characterize(const trace::Trace& trace, size_t tensor_count);

// A point of the migration roofline: the fraction of ideal that no plan can exceed with drives of
// this bandwidth.
struct RooflinePoint {
  int64_t bytes_per_second = 0;  // in each direction, at the same time
  double fraction_of_ideal = 0;
  bool operator==(const RooflinePoint&) const = default;
};

// Returns one point per rate, in the same order: lower_bounds() of a machine with
// `device_memory_bytes`, no host tier, and drives of practically unlimited capacity and no latency
// that move the rate in each direction. Uses two threads. Fails (kOutOfMemory) when an op does not
// fit, whatever moves. Requires validate(trace).ok().
Result<std::vector<RooflinePoint>> migration_roofline(const trace::Trace& trace,
                                                      int64_t device_memory_bytes,
                                                      std::span<const int64_t> rates);

struct CharacterizedTrace {
  trace::Trace trace;
  Characterization facts;
  std::optional<int64_t> capacity_bytes;  // of the device
  std::vector<RooflinePoint> roofline;    // empty without a capacity, or when an op does not fit
};

// Writes the tables of `teraio characterize` as JSON ("teraio-characterization/1",
// docs/planning.md), from which teraio_figures draws the figures. Replaces `path` atomically. A
// failure names the file.
Status write_characterizations(std::span<const CharacterizedTrace> traces,
                               const std::filesystem::path& path);

}  // namespace teraio::analysis
