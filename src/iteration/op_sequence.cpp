#include "iteration/op_sequence.h"

#include <algorithm>
#include <numeric>

namespace teraio::iteration {

OpSequence::OpSequence(std::span<const OpSignature> signatures) {
  structures_.reserve(signatures.size());
  prefix_hashes_.reserve(signatures.size() + 1);
  prefix_hashes_.push_back(kEmptySignature);
  for (const OpSignature& signature : signatures) {
    structures_.push_back(signature.structure);
    prefix_hashes_.push_back(add_op(prefix_hashes_.back(), signature.structure));
  }
  by_structure_.resize(structures_.size());
  std::iota(by_structure_.begin(), by_structure_.end(), 0);
  std::stable_sort(by_structure_.begin(), by_structure_.end(),
                   [this](trace::OpIndex a, trace::OpIndex b) { return at(a) < at(b); });
  for (const trace::OpIndex op : by_structure_) structures_in_order_.push_back(at(op));
}

std::span<const trace::OpIndex> OpSequence::places_of(uint64_t structure) const {
  const auto [first, last] =
      std::equal_range(structures_in_order_.begin(), structures_in_order_.end(), structure);
  return std::span(by_structure_)
      .subspan(static_cast<size_t>(first - structures_in_order_.begin()),
               static_cast<size_t>(last - first));
}

}  // namespace teraio::iteration
