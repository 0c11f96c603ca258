#include "engine/occasions.h"

#include <algorithm>

namespace teraio::engine {
namespace {

// More allocations of one op share the last moment.
constexpr int64_t kMomentsPerOp = 1 << 12;

}  // namespace

device::Occasion Occasions::of_birth(trace::OpIndex position) {
  if (position == kLost) return {};
  const int64_t moment = next_moment(position);
  const uint64_t number = std::min<uint64_t>(birth_count_++, kMomentsPerOp - 1);
  const uint64_t birth = static_cast<uint64_t>(position) * kMomentsPerOp + number;
  return {.moment = moment, .key = birth << 1};
}

device::Occasion Occasions::of_return(trace::OpIndex position, trace::TensorIndex tensor,
                                      trace::OpIndex needed_at) {
  if (position == kLost || tensor < 0) return {};
  const uint64_t use = static_cast<uint64_t>(tensor) << 32 | static_cast<uint32_t>(needed_at);
  return {.moment = next_moment(position), .key = use << 1 | 1};
}

int64_t Occasions::next_moment(trace::OpIndex position) {
  if (position != position_) {
    position_ = position;
    count_ = 0;
    birth_count_ = 0;
  }
  return position * kMomentsPerOp + std::min(count_++, kMomentsPerOp - 1);
}

}  // namespace teraio::engine
