// MemoryCurve: bytes above (or, negative, below) a limit at every op of the repeating iteration.
//
// A segment tree: every operation on a range of ops takes logarithmic time, save relief(), which
// visits more where the curve crosses zero. Ranges are unrolled: [first, end) with
// first < 2 N and end - first <= N, and pass the end of the iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::planner {

class MemoryCurve {
 public:
  // `weights`: what a byte above the limit counts at each op, such as the op's duration.
  MemoryCurve(const std::vector<int64_t>& excess_bytes, const std::vector<double>& weights);

  void add(int64_t first, int64_t end, int64_t bytes);

  // The largest value in the range; of an empty range, a very small number.
  int64_t max(int64_t first, int64_t end) const;
  int64_t max() const { return nodes_[1].max; }

  // The weighted sum over the range of min(bytes, what is above zero): how much a release of
  // `bytes` there lowers the pressure.
  double relief(int64_t first, int64_t end, int64_t bytes) const;

  // The last op of the range whose value is above `limit`; first - 1 when there is none.
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
