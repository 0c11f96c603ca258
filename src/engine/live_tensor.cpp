#include "engine/live_tensor.h"

namespace teraio::engine {

uint64_t id_of(const LiveTensor& tensor) { return tensor.id; }

int64_t size_bytes_of(const LiveTensor& tensor) { return tensor.size_bytes; }

uint64_t structure_of(const OpSignature& signature, std::span<const Use> inputs) {
  uint64_t structure = signature.structure;
  for (const Use& use : inputs)
    if (use.tensor->identifies_ops) structure = add_to_signature(structure, use.tensor->id);
  return structure;
}

// Relaxed: the flag orders nothing. It turns true once, when an op takes the tensor as an input or
// the op that made it ends, and only after that may the tensor leave. A thread that reads false
// runs the op that made the tensor; another op that takes it meanwhile races with that op in the
// program itself.
bool is_newborn(const LiveTensor& tensor) {
  return !tensor.is_seen_as_input.load(std::memory_order_relaxed);
}

}  // namespace teraio::engine
