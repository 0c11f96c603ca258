#include "planner/memory_curve.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace teraio::planner {
namespace {

constexpr size_t kBlockOps = 16;
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() / 4;

}  // namespace

MemoryCurve::MemoryCurve(std::vector<int64_t> excess_bytes, std::vector<double> weights)
    : values_(std::move(excess_bytes)), weights_(std::move(weights)) {
  while (block_count_ * kBlockOps < values_.size()) block_count_ *= 2;
  nodes_.resize(2 * block_count_);
  for (size_t block = 0; block < block_count_; ++block) {
    const auto [first, end] = block_span(block);
    for (size_t op = first; op < end; ++op) nodes_[block_count_ + block].weight += weights_[op];
    pull_block(block);
  }
  for (size_t node = block_count_ - 1; node > 0; --node) {
    nodes_[node].weight = nodes_[2 * node].weight + nodes_[2 * node + 1].weight;
    pull(node);
  }
}

// Splits an unrolled range at the ends of iterations. Calls `visit(part, offset)` for each part,
// where `offset` is the first op of the iteration.
template <typename Visit>
void MemoryCurve::for_parts(int64_t first, int64_t end, Visit visit) const {
  const auto count = static_cast<int64_t>(values_.size());
  while (first < end) {
    const int64_t offset = first / count * count;
    const int64_t part_end = std::min(end, offset + count);
    const auto low = static_cast<size_t>(first - offset);
    const auto high = static_cast<size_t>(part_end - offset);
    visit(Part{low, high, low / kBlockOps, (high - 1) / kBlockOps}, offset);
    first = part_end;
  }
}

MemoryCurve::Span MemoryCurve::block_span(size_t block) const {
  const size_t first = std::min(block * kBlockOps, values_.size());
  return {first, std::min(first + kBlockOps, values_.size())};
}

MemoryCurve::Span MemoryCurve::span_of(const Part& part, size_t block) const {
  const Span all = block_span(block);
  return {std::max(all.first, part.first), std::min(all.end, part.end)};
}

bool MemoryCurve::covers(const Part& part, size_t block) const {
  const Span all = block_span(block);
  return part.first <= all.first && all.end <= part.end;
}

void MemoryCurve::apply(size_t node, int64_t bytes) {
  Node& own = nodes_[node];
  own.min += bytes;
  own.max += bytes;
  own.pending += bytes;
  own.weighted += static_cast<double>(bytes) * own.weight;
}

void MemoryCurve::pull(size_t node) {
  const Node& left = nodes_[2 * node];
  const Node& right = nodes_[2 * node + 1];
  Node& own = nodes_[node];
  own.min = std::min(left.min, right.min) + own.pending;
  own.max = std::max(left.max, right.max) + own.pending;
  own.weighted = left.weighted + right.weighted + static_cast<double>(own.pending) * own.weight;
}

// A block past the last op is neither the least nor the largest.
void MemoryCurve::pull_block(size_t block) {
  Node& own = nodes_[block_count_ + block];
  own.min = -kLowest;
  own.max = kLowest;
  own.weighted = static_cast<double>(own.pending) * own.weight;
  const auto [first, end] = block_span(block);
  for (size_t op = first; op < end; ++op) {
    own.min = std::min(own.min, values_[op]);
    own.max = std::max(own.max, values_[op]);
    own.weighted += static_cast<double>(values_[op]) * weights_[op];
  }
  own.min += own.pending;
  own.max += own.pending;
}

void MemoryCurve::add_in_block(const Part& part, size_t block, int64_t bytes) {
  if (covers(part, block)) return apply(block_count_ + block, bytes);
  const auto [first, end] = span_of(part, block);
  for (size_t op = first; op < end; ++op) values_[op] += bytes;
  pull_block(block);
}

void MemoryCurve::add(int64_t first, int64_t end, int64_t bytes) {
  for_parts(first, end, [&](const Part& part, int64_t) { add(part, bytes); });
}

// From the two outer blocks upwards: what lies between them is made of whole subtrees.
void MemoryCurve::add(const Part& part, int64_t bytes) {
  size_t left = block_count_ + part.first_block;
  size_t right = block_count_ + part.last_block;
  add_in_block(part, part.first_block, bytes);
  if (left != right) add_in_block(part, part.last_block, bytes);
  for (; left / 2 != right / 2; left /= 2, right /= 2) {
    if (left % 2 == 0) apply(left + 1, bytes);
    if (right % 2 == 1) apply(right - 1, bytes);
    pull(left / 2);
    pull(right / 2);
  }
  for (size_t node = left / 2; node > 0; node /= 2) pull(node);
}

int64_t MemoryCurve::max(int64_t first, int64_t end) const {
  int64_t result = kLowest;
  for_parts(first, end, [&](const Part& part, int64_t) { result = std::max(result, max(part)); });
  return result;
}

int64_t MemoryCurve::max_in_block(const Part& part, size_t block) const {
  const Node& own = nodes_[block_count_ + block];
  if (covers(part, block)) return own.max;
  const auto [first, end] = span_of(part, block);
  return own.pending + *std::max_element(values_.begin() + static_cast<ptrdiff_t>(first),
                                         values_.begin() + static_cast<ptrdiff_t>(end));
}

int64_t MemoryCurve::max(const Part& part) const {
  size_t left = block_count_ + part.first_block;
  size_t right = block_count_ + part.last_block;
  int64_t left_max = max_in_block(part, part.first_block);
  int64_t right_max = left == right ? left_max : max_in_block(part, part.last_block);
  for (; left / 2 != right / 2; left /= 2, right /= 2) {
    if (left % 2 == 0) left_max = std::max(left_max, nodes_[left + 1].max);
    if (right % 2 == 1) right_max = std::max(right_max, nodes_[right - 1].max);
    left_max += nodes_[left / 2].pending;
    right_max += nodes_[right / 2].pending;
  }
  int64_t result = std::max(left_max, right_max);
  for (size_t node = left / 2; node > 0; node /= 2) result += nodes_[node].pending;
  return result;
}

double MemoryCurve::relief(int64_t first, int64_t end, int64_t bytes) const {
  double sum = 0;
  for_parts(first, end, [&](const Part& part, int64_t) {
    // From the lowest node that spans the part.
    size_t node = block_count_ + part.first_block;
    size_t last = block_count_ + part.last_block;
    size_t width = 1;
    for (; node != last; node /= 2, last /= 2) width *= 2;
    int64_t above = 0;
    for (size_t over = node / 2; over > 0; over /= 2) above += nodes_[over].pending;
    sum += relief(part, node, node * width - block_count_, width, bytes, above);
  });
  return sum;
}

double MemoryCurve::relief(const Part& part, size_t node, size_t block, size_t width, int64_t bytes,
                           int64_t above) const {
  const Node& own = nodes_[node];
  const size_t last = block + width - 1;
  if (last < part.first_block || part.last_block < block || own.max + above <= 0) return 0;
  if (covers(part, block) && covers(part, last)) {
    if (own.min + above >= bytes) return static_cast<double>(bytes) * own.weight;
    if (own.min + above >= 0 && own.max + above <= bytes)
      return own.weighted + static_cast<double>(above) * own.weight;
  }
  const int64_t below = above + own.pending;
  if (width > 1)
    return relief(part, 2 * node, block, width / 2, bytes, below) +
           relief(part, 2 * node + 1, block + width / 2, width / 2, bytes, below);
  double sum = 0;
  const auto [first, end] = span_of(part, block);
  for (size_t op = first; op < end; ++op)
    sum += static_cast<double>(std::clamp<int64_t>(values_[op] + below, 0, bytes)) * weights_[op];
  return sum;
}

int64_t MemoryCurve::last_above(int64_t first, int64_t end, int64_t limit) const {
  int64_t result = first - 1;
  for_parts(first, end, [&](const Part& part, int64_t offset) {
    const int64_t found = last_above(part, 1, 0, block_count_, limit);
    if (found >= 0) result = found + offset;
  });
  return result;
}

int64_t MemoryCurve::last_above(const Part& part, size_t node, size_t block, size_t width,
                                int64_t limit) const {
  const Node& own = nodes_[node];
  if (block + width <= part.first_block || part.last_block < block || own.max <= limit) return -1;
  const int64_t below = limit - own.pending;
  if (width > 1) {
    const int64_t right = last_above(part, 2 * node + 1, block + width / 2, width / 2, below);
    return right >= 0 ? right : last_above(part, 2 * node, block, width / 2, below);
  }
  const auto [first, end] = span_of(part, block);
  for (size_t op = end; op > first; --op)
    if (values_[op - 1] > below) return static_cast<int64_t>(op - 1);
  return -1;
}

}  // namespace teraio::planner
