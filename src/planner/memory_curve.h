// MemoryCurve: the bytes above a limit (negative: below it) at every op of the repeating iteration.
//
// A segment tree: every operation on a range of ops takes logarithmic time, except relief(), which
// visits more nodes where the curve crosses zero. A range [first, end) is unrolled and may extend
// past the end of the iteration: first < 2 N and end - first <= N. A value type; one thread at a
// time may change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::planner {

class MemoryCurve {
 public:
  // `weights`: the weight of a byte above the limit at each op, such as the duration of the op.
  MemoryCurve(const std::vector<int64_t>& excess_bytes, const std::vector<double>& weights);

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
  struct Node {
    int64_t min = 0;
    int64_t max = 0;
    int64_t pending = 0;  // to be added to the children
    double weight = 0;
    double weighted = 0;  // sum of value * weight
  };

  void build(size_t node, int64_t low, int64_t high, const std::vector<int64_t>& excess_bytes,
             const std::vector<double>& weights);
  void add(size_t node, int64_t low, int64_t high, int64_t first, int64_t end, int64_t bytes);
  int64_t max(size_t node, int64_t low, int64_t high, int64_t first, int64_t end) const;
  double relief(size_t node, int64_t low, int64_t high, int64_t first, int64_t end, int64_t bytes,
                int64_t above) const;
  int64_t last_above(size_t node, int64_t low, int64_t high, int64_t first, int64_t end,
                     int64_t limit) const;
  void apply(Node& node, int64_t bytes);
  void pull(size_t node);

  int64_t count_;
  std::vector<Node> nodes_;
};

}  // namespace teraio::planner
