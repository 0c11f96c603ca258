// OpSet: a set of ops that finds the next and the previous member quickly, however far away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::planner {

// A tree of bits with 64 children per node. A value type; one thread at a time may change it.
class OpSet {
 public:
  // Ops are in [0, op_count).
  explicit OpSet(int64_t op_count = 0);

  int64_t op_count() const { return op_count_; }

  void insert(int64_t op);
  void erase(int64_t op);

  // Returns the first member at or after `op`, or `none` when there is none. `op` >= 0.
  int64_t next(int64_t op, int64_t none) const;
  // Returns the last member at or before `op`, or -1 when there is none. `op` < op_count.
  int64_t previous(int64_t op) const;

 private:
  // Level 0 has a bit per op, and each other level a bit per word of the level below, which is set
  // where that word is not 0.
  std::vector<std::vector<uint64_t>> levels_;
  int64_t op_count_;
};

}  // namespace teraio::planner
