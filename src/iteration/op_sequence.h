// OpSequence: the ops of an iteration in their order, and where each of them occurs.
//
// Ops are compared by OpSignature::structure, so that iterations whose sizes differ have equal
// sequences. A value; reading is safe from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "iteration/signature.h"
#include "trace/trace.h"

namespace teraio::iteration {

// The position of an op that the profile does not know.
inline constexpr trace::OpIndex kLost = -1;

class OpSequence {
 public:
  OpSequence() = default;
  explicit OpSequence(std::span<const OpSignature> signatures);

  trace::OpIndex size() const { return static_cast<trace::OpIndex>(structures_.size()); }
  int64_t memory_bytes() const {  // of this object, roughly
    return size() * int64_t{3 * sizeof(uint64_t) + sizeof(trace::OpIndex)};
  }
  uint64_t at(trace::OpIndex op) const { return structures_[static_cast<size_t>(op)]; }

  // Returns the places of the ops with this structure, in ascending order.
  std::span<const trace::OpIndex> places_of(uint64_t structure) const;

  // Returns a hash of the first `count` ops. Requires 0 <= count <= size(). What add_op() gives for
  // them one after the other, from kEmptySignature on.
  uint64_t prefix_hash(trace::OpIndex count) const {
    return prefix_hashes_[static_cast<size_t>(count)];
  }
  static constexpr uint64_t add_op(uint64_t prefix_hash, uint64_t structure) {
    return add_to_signature(prefix_hash, structure);
  }

 private:
  std::vector<uint64_t> structures_;
  std::vector<uint64_t> prefix_hashes_;        // of 0, 1, 2 ... ops
  std::vector<trace::OpIndex> by_structure_;   // all places, by structure, then ascending
  std::vector<uint64_t> structures_in_order_;  // that of each place in by_structure_
};

}  // namespace teraio::iteration
