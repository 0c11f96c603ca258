#include "planner/memory_curve.h"

#include <algorithm>
#include <limits>

namespace teraio::planner {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() / 4;

// Splits an unrolled range at the ends of iterations. Calls `visit(first, end, offset)` for each
// part, with `first` and `end` relative to `offset`, the first op of the iteration.
template <typename Visit>
void for_parts(int64_t first, int64_t end, int64_t count, Visit visit) {
  while (first < end) {
    const int64_t offset = first / count * count;
    const int64_t part_end = std::min(end, offset + count);
    visit(first - offset, part_end - offset, offset);
    first = part_end;
  }
}

}  // namespace

MemoryCurve::MemoryCurve(const std::vector<int64_t>& excess_bytes,
                         const std::vector<double>& weights)
    : count_(static_cast<int64_t>(excess_bytes.size())) {
  size_t leaves = 1;
  while (leaves < excess_bytes.size()) leaves *= 2;
  nodes_.resize(2 * leaves);
  if (count_ > 0) build(1, 0, count_, excess_bytes, weights);
}

void MemoryCurve::build(size_t node, int64_t low, int64_t high,
                        const std::vector<int64_t>& excess_bytes,
                        const std::vector<double>& weights) {
  if (high - low == 1) {
    nodes_[node] = {excess_bytes[low], excess_bytes[low], 0, weights[low],
                    static_cast<double>(excess_bytes[low]) * weights[low]};
    return;
  }
  const int64_t middle = (low + high) / 2;
  build(2 * node, low, middle, excess_bytes, weights);
  build(2 * node + 1, middle, high, excess_bytes, weights);
  nodes_[node].weight = nodes_[2 * node].weight + nodes_[2 * node + 1].weight;
  pull(node);
}

void MemoryCurve::apply(Node& node, int64_t bytes) {
  node.min += bytes;
  node.max += bytes;
  node.pending += bytes;
  node.weighted += static_cast<double>(bytes) * node.weight;
}

// `pending` stays at the node; queries add it on their way down.
void MemoryCurve::pull(size_t node) {
  const Node& left = nodes_[2 * node];
  const Node& right = nodes_[2 * node + 1];
  Node& own = nodes_[node];
  own.min = std::min(left.min, right.min) + own.pending;
  own.max = std::max(left.max, right.max) + own.pending;
  own.weighted = left.weighted + right.weighted + static_cast<double>(own.pending) * own.weight;
}

void MemoryCurve::add(int64_t first, int64_t end, int64_t bytes) {
  for_parts(first, end, count_, [&](int64_t part_first, int64_t part_end, int64_t) {
    add(1, 0, count_, part_first, part_end, bytes);
  });
}

void MemoryCurve::add(size_t node, int64_t low, int64_t high, int64_t first, int64_t end,
                      int64_t bytes) {
  if (end <= low || high <= first) return;
  if (first <= low && high <= end) {
    apply(nodes_[node], bytes);
    return;
  }
  const int64_t middle = (low + high) / 2;
  add(2 * node, low, middle, first, end, bytes);
  add(2 * node + 1, middle, high, first, end, bytes);
  pull(node);
}

int64_t MemoryCurve::max(int64_t first, int64_t end) const {
  int64_t result = kLowest;
  for_parts(first, end, count_, [&](int64_t part_first, int64_t part_end, int64_t) {
    result = std::max(result, max(1, 0, count_, part_first, part_end));
  });
  return result;
}

int64_t MemoryCurve::max(size_t node, int64_t low, int64_t high, int64_t first, int64_t end) const {
  if (end <= low || high <= first) return kLowest;
  if (first <= low && high <= end) return nodes_[node].max;
  const int64_t middle = (low + high) / 2;
  return nodes_[node].pending + std::max(max(2 * node, low, middle, first, end),
                                         max(2 * node + 1, middle, high, first, end));
}

double MemoryCurve::relief(int64_t first, int64_t end, int64_t bytes) const {
  double sum = 0;
  for_parts(first, end, count_, [&](int64_t part_first, int64_t part_end, int64_t) {
    sum += relief(1, 0, count_, part_first, part_end, bytes, 0);
  });
  return sum;
}

double MemoryCurve::relief(size_t node, int64_t low, int64_t high, int64_t first, int64_t end,
                           int64_t bytes, int64_t above) const {
  const Node& own = nodes_[node];
  if (end <= low || high <= first || own.max + above <= 0) return 0;
  if (first <= low && high <= end) {
    if (own.min + above >= bytes) return static_cast<double>(bytes) * own.weight;
    if (own.min + above >= 0 && own.max + above <= bytes)
      return own.weighted + static_cast<double>(above) * own.weight;
  }
  const int64_t middle = (low + high) / 2;
  const int64_t below = above + own.pending;
  return relief(2 * node, low, middle, first, end, bytes, below) +
         relief(2 * node + 1, middle, high, first, end, bytes, below);
}

int64_t MemoryCurve::last_above(int64_t first, int64_t end, int64_t limit) const {
  int64_t result = first - 1;
  for_parts(first, end, count_, [&](int64_t part_first, int64_t part_end, int64_t offset) {
    const int64_t found = last_above(1, 0, count_, part_first, part_end, limit);
    if (found >= part_first) result = found + offset;
  });
  return result;
}

int64_t MemoryCurve::last_above(size_t node, int64_t low, int64_t high, int64_t first, int64_t end,
                                int64_t limit) const {
  if (end <= low || high <= first || nodes_[node].max <= limit) return -1;
  if (high - low == 1) return low;
  const int64_t middle = (low + high) / 2;
  const int64_t below = limit - nodes_[node].pending;
  const int64_t right = last_above(2 * node + 1, middle, high, first, end, below);
  return right >= 0 ? right : last_above(2 * node, low, middle, first, end, below);
}

}  // namespace teraio::planner
