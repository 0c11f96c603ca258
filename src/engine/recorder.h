// Recorder: from what the hooks see to a Profile.
//
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/profile.h"
#include "engine/use.h"

namespace teraio::engine {

// What an op was and did, known when it has ended.
struct OpRecord {
  std::string_view name;  // of memory that outlives the recorder
  uint64_t signature = 0;
  std::span<const Use> uses;
  // Born since the op before and still alive: they count as written by this op.
  std::span<LiveTensor* const> births;
  // Since the end of the op before, waiting for migrations excluded: durations add up to the step.
  int64_t duration_ns = 0;
  int64_t workspace_bytes = 0;
};

class Recorder {
 public:
  // Forgets what was recorded. Tensors with an id below first_new_id lived before.
  void start(uint64_t first_new_id);

  void record_op(const OpRecord& record);

  // A tensor died: freed by the op recorded last.
  void record_death(LiveTensor& tensor);

  // What a tensor is, from whoever knows it. Kept until the tensor dies.
  void describe(const LiveTensor& tensor, trace::TensorKind kind, std::string name);

  trace::OpIndex op_count() const { return static_cast<trace::OpIndex>(ops_.size()); }

  // The recording so far as one iteration. `alive`: every tensor that lives now. Those that lived
  // before start() are persistent; the others leave with the last op. `is_movable` tells whether
  // the engine could make room of one that no op has touched.
  Profile finish(std::span<LiveTensor* const> alive,
                 const std::function<bool(const LiveTensor&)>& is_movable);

 private:
  struct Description {
    trace::TensorKind kind = trace::TensorKind::kOther;
    std::string name;
  };

  // Flat while it grows, since this is done after every op; finish() makes a Trace of it.
  struct RecordedOp {
    std::string_view name;
    uint64_t signature = 0;
    int64_t duration_ns = 0;
    int64_t workspace_bytes = 0;
    size_t events_end = 0;  // its events are those since the op before
  };
  enum class EventKind : uint8_t { kRead, kWrite, kBirth, kFree };
  struct Event {
    trace::TensorIndex tensor;
    EventKind kind;
  };

  void append_ops(Profile& profile) const;
  bool is_recorded(const LiveTensor& tensor) const { return tensor.record_epoch == epoch_; }
  trace::TensorIndex index_of(LiveTensor& tensor);
  void apply_descriptions(trace::Trace& trace) const;

  uint64_t epoch_ = 0;
  uint64_t first_new_id_ = 0;
  std::vector<RecordedOp> ops_;
  std::vector<Event> events_;
  std::vector<trace::Tensor> tensors_;
  std::unordered_map<uint64_t, Description> descriptions_;  // by tensor id
};

}  // namespace teraio::engine
