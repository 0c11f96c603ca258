// MemoryCurve: the bytes above a limit (negative: below it) at every op of the repeating iteration.
//
// A segment tree over blocks of ops: every operation on a range of ops takes logarithmic time,
// except relief(), which visits more nodes where the curve crosses zero. A range [first, end) is
// unrolled and may extend past the end of the iteration: first < 2 N and end - first <= N. A value
// type; one thread at a time may change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::planner {

class MemoryCurve {
 public:
  // `weights`: the weight of a byte above the limit at each op, such as the duration of the op.
  MemoryCurve(std::vector<int64_t> excess_bytes, std::vector<double> weights);

  // Adds `bytes` at every op of the range.
  void add(int64_t first, int64_t end, int64_t bytes);

  // Returns the largest value in the range; for an empty range, a very small number.
  int64_t max(int64_t first, int64_t end) const;
  int64_t max() const { return nodes_[1].max; }

  // Returns the weighted sum of min(bytes, value) over the ops of the range whose value is above
  // zero: the pressure that a release of `bytes` there relieves.
  double relief(int64_t first, int64_t end, int64_t bytes) const;

  // Returns the last op of the range whose value is above `limit`; first - 1 when there is none.
  int64_t last_above(int64_t first, int64_t end, int64_t limit) const;

 private:
  // The children of node n are 2n and 2n + 1. `pending` is in the node's own figures, but not yet
  // in those of its children or in the values of its block.
  struct Node {
    int64_t min = 0;
    int64_t max = 0;
    int64_t pending = 0;
    double weight = 0;
    double weighted = 0;  // sum of value * weight
  };
  // A part of one iteration, and the blocks of its first and its last op.
  struct Part {
    size_t first;
    size_t end;
    size_t first_block;
    size_t last_block;
  };
  // The ops of a part that lie in one block.
  struct Span {
    size_t first;
    size_t end;
  };

  template <typename Visit>
  void for_parts(int64_t first, int64_t end, Visit visit) const;
  Span block_span(size_t block) const;
  Span span_of(const Part& part, size_t block) const;
  bool covers(const Part& part, size_t block) const;

  void apply(size_t node, int64_t bytes);
  void pull(size_t node);
  void pull_block(size_t block);
  void add_in_block(const Part& part, size_t block, int64_t bytes);
  void add(const Part& part, int64_t bytes);
  int64_t max_in_block(const Part& part, size_t block) const;
  int64_t max(const Part& part) const;
  // These go down from a node that spans `width` blocks from `block` on; `above` is what its
  // ancestors have pending.
  double relief(const Part& part, size_t node, size_t block, size_t width, int64_t bytes,
                int64_t above) const;
  int64_t last_above(const Part& part, size_t node, size_t block, size_t width,
                     int64_t limit) const;

  std::vector<int64_t> values_;  // without what is pending
  std::vector<double> weights_;
  size_t block_count_ = 1;  // a power of two: the leaves of the tree
  std::vector<Node> nodes_;
};

}  // namespace teraio::planner
