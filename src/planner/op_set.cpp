#include "planner/op_set.h"

#include <bit>

namespace teraio::planner {
namespace {

constexpr int64_t kBits = 64;

uint64_t bit(int64_t position) { return uint64_t{1} << (position % kBits); }

}  // namespace

OpSet::OpSet(int64_t op_count) : op_count_(op_count) {
  do {
    op_count = (op_count + kBits - 1) / kBits;
    levels_.emplace_back(op_count, 0);
  } while (op_count > 1);
}

void OpSet::insert(int64_t op) {
  for (std::vector<uint64_t>& words : levels_) {
    uint64_t& word = words[op / kBits];
    const bool was_empty = word == 0;
    word |= bit(op);
    if (!was_empty) return;
    op /= kBits;
  }
}

void OpSet::erase(int64_t op) {
  for (std::vector<uint64_t>& words : levels_) {
    uint64_t& word = words[op / kBits];
    word &= ~bit(op);
    if (word != 0) return;
    op /= kBits;
  }
}

// Up to the first level that has a member to the right, and down again.
int64_t OpSet::next(int64_t op, int64_t none) const {
  for (size_t level = 0; level < levels_.size(); ++level) {
    if (op / kBits >= static_cast<int64_t>(levels_[level].size())) return none;
    const uint64_t right = levels_[level][op / kBits] >> (op % kBits);
    if (right != 0) {
      op += std::countr_zero(right);
      for (; level > 0; --level) op = op * kBits + std::countr_zero(levels_[level - 1][op]);
      return op;
    }
    op = op / kBits + 1;
  }
  return none;
}

int64_t OpSet::previous(int64_t op) const {
  for (size_t level = 0; op >= 0 && level < levels_.size(); ++level) {
    const uint64_t left = levels_[level][op / kBits] << (kBits - 1 - op % kBits);
    if (left != 0) {
      op -= std::countl_zero(left);
      for (; level > 0; --level)
        op = op * kBits + kBits - 1 - std::countl_zero(levels_[level - 1][op]);
      return op;
    }
    op = op / kBits - 1;
  }
  return -1;
}

}  // namespace teraio::planner
