// What the hooks of a framework hand to the engine, and what they may ask of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "iteration/op_origin.h"
#include "iteration/op_sequence.h"
#include "iteration/profile.h"
#include "iteration/signature.h"
#include "trace/trace.h"

namespace teraio::engine {

// One storage of the running program. Private to the engine: every field that is not atomic is read
// and written under the runtime's lock. Others hold pointers, and ask by the functions below.
struct LiveTensor;

class ReplayableOp;

// Neither changes during a tensor's life. Any thread, without a lock.
uint64_t id_of(const LiveTensor& tensor);  // for messages
int64_t size_bytes_of(const LiveTensor& tensor);

// The op that made the tensor has ended, or another has used it, so that it can leave the device.
// Any thread, without a lock. A true answer is final.
bool is_complete(const LiveTensor& tensor);
// The program has the tensor, and its bytes are complete. Any thread, without a lock.
void note_complete(LiveTensor& tensor);

// For StorageSwap: what the tensor's bytes belong to, which sees all that the caller has written
// before. A tensor without an owner cannot leave. Any thread, without a lock: every new tensor
// comes here.
void set_owner(LiveTensor& tensor, void* owner);

// Differs for two tensors, and for one whose bytes have changed or are being changed by an op that
// runs. Nothing: they may change at any time, on the device. Under the runtime's lock.
using BytesVersion = std::pair<uint64_t, uint64_t>;
std::optional<BytesVersion> bytes_version(const LiveTensor& tensor);

// Where tensors that an op or a pin of the calling thread uses are on the device; null for null.
std::vector<std::byte*> addresses_of(std::span<LiveTensor* const> tensors);

// One tensor of an op's active set. An op names each tensor once.
struct Use {
  LiveTensor* tensor = nullptr;
  bool is_write = false;
  bool is_parameter = false;  // seen as a leaf that requires a gradient
};

// The structure of an op with these inputs: that of its signature, and which tensors of those that
// identify ops the inputs are.
uint64_t structure_of(const iteration::OpSignature& signature, std::span<const Use> inputs);

// What the engine keeps of an op from its begin to its end. Nobody else reads or writes it.
struct BegunOp {
  bool is_begun = false;
  bool is_replay_planned = false;
  size_t input_count = 0;  // the first ones of OpFrame::uses; the others are results
  trace::OpIndex position =
      iteration::kLost;                // in the iteration of `epoch`: Runtime::position_of()
  uint64_t epoch = 0;                  // of the engine
  size_t new_difference = 0;           // 0: none (DifferenceLog::note())
  std::optional<uint64_t> origin_key;  // a profile wants to know where the op comes from
  struct Start {
    int64_t time_ns = 0;
    int64_t device_bytes = 0;
  };
  std::optional<Start> start;  // where a timeline is recorded
};

// The tensors of one op under way. Belongs to the thread that runs it, which uses it again for the
// next op.
struct OpFrame {
  std::vector<Use> uses;         // each tensor once: inputs, then results
  std::vector<Use> nested_uses;  // by ops inside it, of other tensors: pinned until it ends
  BegunOp begun;
};

// What the engine asks of the caller that has begun an op.
struct OpRequests {
  bool is_origin_wanted = false;                    // OpFacts::origin
  std::optional<iteration::OpOrigin> known_origin;  // is_origin_wanted: this is the answer
  bool is_place_wanted = false;  // OpFacts::place: the op differs from the plan in a new way
  // The op's results may be discarded (is_replay_planned), or a profile asks whether they could be:
  // OpFacts::replay, unless the op cannot be run again.
  bool is_replay_wanted = false;
  bool is_replay_planned = false;
};

// How an op that has ended is run again.
struct OpReplay {
  std::shared_ptr<const ReplayableOp> op;  // null: it cannot be
  std::vector<LiveTensor*> inputs;         // those whose bytes a replay reads
  // What the op has made, in the order in which a replay gives it; null for a tensor that is gone.
  std::vector<LiveTensor*> results;
};

// What the caller tells the engine of an op that ends.
struct OpFacts {
  // The results' bytes are final. False for ops such as aten::empty, whose caller fills them in
  // without an op.
  bool is_complete = true;
  int64_t own_work_ns = 0;  // our own work, between the op's begin and the op
  std::optional<iteration::OpOrigin> origin = {};
  std::string place = {};  // in the program, for people
  OpReplay replay = {};
  const iteration::FlopsByPrecision* flops = nullptr;  // null: they are not counted
  bool has_differed = false;  // a replay has given other bytes: the op is not replayed any more
};

}  // namespace teraio::engine
