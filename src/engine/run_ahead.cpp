#include "engine/run_ahead.h"

#include <utility>

namespace teraio::engine {
namespace {

constexpr int64_t kMarkNs = 1'000'000;
constexpr size_t kMarksAhead = 3;

}  // namespace

device::Event RunAhead::add_op(int64_t duration_ns) {
  since_mark_ns_ += duration_ns;
  if (since_mark_ns_ < kMarkNs) return {};
  since_mark_ns_ = 0;
  marks_.push_back(device_.record());
  if (marks_.size() <= kMarksAhead) return {};
  const device::Event oldest = marks_.front();
  marks_.pop_front();
  return oldest;
}

}  // namespace teraio::engine
