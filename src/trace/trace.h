// Trace: what one training iteration did. A value type; its file format is in docs/formats.md.
//
// In memory, every reference to a tensor is its position in `tensors` (a TensorIndex). Tensor::id
// keeps the id of the file, for messages and for writing the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace teraio::trace {

using TensorIndex = int32_t;
using OpIndex = int32_t;

enum class TensorKind : uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kInput,
  kWorkspace,
  kOther,
};

// The names of the file format: "parameter", "gradient", "optimizer_state", ...
std::string_view to_string(TensorKind kind);

struct Tensor {
  int64_t id = 0;
  int64_t size_bytes = 0;
  bool persistent = false;  // lives across iterations
  TensorKind kind = TensorKind::kOther;
  std::string name;  // empty when it has none

  bool operator==(const Tensor&) const = default;
};

struct Op {
  std::string name;
  int64_t duration_ns = 0;          // with all its tensors resident, without stalls
  std::vector<TensorIndex> reads;   // only read
  std::vector<TensorIndex> writes;  // created or changed
  std::vector<TensorIndex> frees;   // released right after the op
  int64_t workspace_bytes = 0;      // exists only while the op runs
  // Running the op again on the same bytes gives the same bytes and has no other effect.
  bool replayable = false;

  bool operator==(const Op&) const = default;
};

// `ops` are in execution order, and the sequence repeats. A tensor that is not persistent is
// allocated just before the first op that uses it. It is released after the op that frees it, or
// after the last op that uses it when no op frees it.
struct Trace {
  std::string name;
  std::string source;  // "profiled", "modelled", or free text
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::optional<int64_t> tokens_per_step;  // of the whole job, in this iteration

  bool operator==(const Trace&) const = default;
};

// Returns the trace with other ids for the tensors that are born in the iteration: their positions,
// behind the ids of the persistent ones. Ids of recorded tensors count births in their process, and
// those of such tensors differ from iteration to iteration.
Trace with_repeatable_ids(Trace trace);

// The sum of the durations of all ops: the time of an iteration without stalls.
int64_t ideal_ns(const Trace& trace);

}  // namespace teraio::trace
