// Recorder: turns what the hooks see into a Profile.
//
// Threads: the owner calls it under its own lock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/use.h"
#include "iteration/profile.h"

namespace teraio::learn {

// Whether a recorded trace may have this name.
bool names_recording(std::string_view name);
// Whether two names of recorded traces are those of iterations with the same ops, on whatever
// sizes.
bool names_same_ops(std::string_view a, std::string_view b);

// What an op was and did, known once it has ended.
struct OpRecord {
  std::string_view name;  // its memory outlives the recorder
  iteration::OpSignature signature;
  std::span<const engine::Use> uses;
  size_t input_count = 0;  // the first ones of `uses` are arguments, the others results
  // Used by ops inside this one: each tensor any number of times, also some of `uses`.
  std::span<const engine::Use> nested_uses;
  // Tensors created since the previous op and still alive. They count as written by this op.
  std::span<engine::LiveTensor* const> births;
  // The time since the end of the previous op, without waits for migrations. The durations add up
  // to the step time.
  int64_t duration_ns = 0;
  int64_t workspace_bytes = 0;
  // A replay needs the bytes of these inputs alone: it has the others, which are small, by value.
  bool is_replayable = false;
  std::span<engine::LiveTensor* const> replay_inputs;
  iteration::OpOrigin origin = {};  // names the tensors that the op makes
  const iteration::FlopsByPrecision* flops = nullptr;
};

class Recorder {
 public:
  // Persistent tensors of at least `identity_bytes` identify the ops that use them. Smaller ones
  // may be results, such as losses, that the program collects.
  explicit Recorder(int64_t identity_bytes = 1) : identity_bytes_(identity_bytes) {}

  // Discards the recording. Tensors with an id below first_new_id existed before.
  void start(uint64_t first_new_id);

  void record_op(const OpRecord& record);

  // Registers that a tensor died. The op recorded last frees it.
  void record_death(engine::LiveTensor& tensor);

  // Sets the kind and the name of a tensor. They are kept until the tensor dies.
  void describe(engine::LiveTensor& tensor, trace::TensorKind kind, std::string name);

  trace::OpIndex op_count() const { return static_cast<trace::OpIndex>(ops_.size()); }

  // Returns the recording so far as one iteration. `alive` holds every tensor that lives now.
  // Tensors that existed before start() and that the program still has are persistent, and are told
  // so (RecordState::persistence). The last op frees the others. `is_movable` returns whether the
  // engine could offload a tensor that no op has touched.
  iteration::Profile finish(std::span<engine::LiveTensor* const> alive,
                            const std::function<bool(const engine::LiveTensor&)>& is_movable);

 private:
  struct Description {
    trace::TensorKind kind = trace::TensorKind::kOther;
    std::string name;
  };

  // Stored flat, because the recorder appends after every op; finish() converts it to a Trace.
  struct RecordedOp {
    std::string_view name;
    iteration::OpSignature signature;
    size_t input_count = 0;
    int64_t duration_ns = 0;
    int64_t workspace_bytes = 0;
    bool is_replayable = false;
    iteration::OpOrigin origin;
    size_t events_end = 0;  // its events start where the previous op's end
  };
  enum class EventKind : uint8_t {
    kRead,
    kValue,
    kWrite,
    kBirth,
    kNestedRead,
    kNestedWrite,
    kFree
  };
  static EventKind kind_of(const engine::Use& use, const OpRecord& record);
  struct Event {
    trace::TensorIndex tensor;
    EventKind kind;
  };

  void record_nested_uses(const OpRecord& record);
  std::vector<bool> append_ops(iteration::Profile& profile) const;
  void add_identities(iteration::Profile& profile) const;
  bool is_recorded(const engine::LiveTensor& tensor) const { return tensor.record.epoch == epoch_; }
  trace::TensorIndex index_of(engine::LiveTensor& tensor);
  void name_births(const OpRecord& record);
  void apply_descriptions(trace::Trace& trace) const;

  const int64_t identity_bytes_;
  uint64_t epoch_ = 0;
  uint64_t first_new_id_ = 0;
  std::vector<RecordedOp> ops_;
  std::vector<Event> events_;
  std::vector<trace::Tensor> tensors_;
  iteration::FlopsByPrecision flops_;
  std::unordered_map<uint64_t, Description> descriptions_;  // by tensor id
};

}  // namespace teraio::learn
