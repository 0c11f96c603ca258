// What the hooks of a framework hand to the engine, and what they may ask of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/op_origin.h"
#include "engine/signature.h"
#include "trace/trace.h"

namespace teraio::engine {

// The position of an op that the profile does not know.
inline constexpr trace::OpIndex kLost = -1;

// One storage of the running program. Private to the engine: every field that is not atomic is read
// and written under the runtime's lock. Others hold pointers, and ask by the functions below.
struct LiveTensor;

class ReplayableOp;

// Neither changes during a tensor's life. Any thread, without a lock.
uint64_t id_of(const LiveTensor& tensor);  // for messages
int64_t size_bytes_of(const LiveTensor& tensor);

// The op that made the tensor has not ended, and no other has used it, so that it cannot leave the
// device. Any thread, without a lock. A false answer is final.
bool is_newborn(const LiveTensor& tensor);

// One tensor of an op's active set. An op names each tensor once.
struct Use {
  LiveTensor* tensor = nullptr;
  bool is_write = false;
  bool is_parameter = false;  // seen as a leaf that requires a gradient
};

// The structure of an op with these inputs: that of its signature, and which tensors of those that
// identify ops the inputs are.
uint64_t structure_of(const OpSignature& signature, std::span<const Use> inputs);

// One op under way. Lives on the stack of the thread that runs it.
struct OpFrame {
  std::vector<Use> uses;         // each tensor once: inputs, then results
  std::vector<Use> nested_uses;  // by ops inside it, of other tensors: pinned until it ends
  size_t input_count = 0;
  trace::OpIndex position = kLost;  // in the iteration of `epoch`: Runtime::position_of()
  uint64_t epoch = 0;               // of the engine, when the op began
  bool is_begun = false;
  // Set when the op begins, where a timeline is recorded (is_in_timeline).
  bool is_in_timeline = false;
  int64_t start_ns = 0;
  int64_t device_bytes_at_start = 0;
  // Set when the op begins: a profile wants to know where the op comes from. The caller then sets
  // `origin`, unless that is known already.
  bool is_origin_wanted = false;
  uint64_t origin_key = 0;
  std::optional<OpOrigin> origin;
  // Set when the op begins: it differs from the plan in a way that is new, and the caller is asked
  // to say where the program is (Runtime::set_place_of_difference()); 0: it does not.
  size_t new_difference = 0;
  // Set when the op begins: its results may be discarded (is_replay_planned), or a profile asks
  // whether they could be. Unless the op cannot be run again, the caller then sets the op, those of
  // its inputs whose bytes a replay reads, and the tensors that it has made, in the order in which
  // a replay gives them; null for one that is gone.
  bool is_recipe_wanted = false;
  bool is_replay_planned = false;
  std::shared_ptr<const ReplayableOp> replayable;
  std::vector<LiveTensor*> replay_inputs;
  std::vector<LiveTensor*> results;

  // A thread's frame is reused: what was wanted of the op before is not wanted of the next one.
  void want_nothing() {
    new_difference = 0;
    is_origin_wanted = is_recipe_wanted = is_replay_planned = false;
  }
};

}  // namespace teraio::engine
