#include "engine/op_sequence.h"

#include <algorithm>
#include <numeric>

namespace teraio::engine {

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

trace::OpIndex OpSequence::common_ends(const OpSequence& other) const {
  const trace::OpIndex shorter = std::min(size(), other.size());
  trace::OpIndex front = 0;
  while (front < shorter && at(front) == other.at(front)) ++front;
  trace::OpIndex back = 0;
  while (front + back < shorter && at(size() - 1 - back) == other.at(other.size() - 1 - back))
    ++back;
  return front + back;
}

}  // namespace teraio::engine
