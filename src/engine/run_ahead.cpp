#include "engine/run_ahead.h"

#include <utility>

namespace teraio::engine {
namespace {

constexpr int64_t kMarkNs = 1'000'000;
constexpr int64_t kAheadNs = 3'000'000;

}  // namespace

device::Event RunAhead::add_op(int64_t duration_ns) {
  since_mark_ns_ += duration_ns;
  if (since_mark_ns_ < kMarkNs) return {};
  marked_ns_ += since_mark_ns_;
  marks_.push_back({device_.record(), std::exchange(since_mark_ns_, 0)});
  device::Event due;
  while (marked_ns_ - marks_.front().duration_ns >= kAheadNs) {
    due = marks_.front().end;
    marked_ns_ -= marks_.front().duration_ns;
    marks_.pop_front();
  }
  return due;
}

}  // namespace teraio::engine
