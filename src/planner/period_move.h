// PeriodMove: how a plan moves the tensor of one inactive period.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "planner/problem.h"

namespace teraio::planner {

// A copy that rests in host memory first, from `rests_at` on. Its tensor is read at `reads_at`,
// leaves for the drives at `leaves_at`, and its bytes on the device are free again from
// `free_from`.
struct Relay {
  int64_t rests_at = 0;
  int64_t reads_at = 0;
  int64_t leaves_at = 0;
  int64_t free_from = 0;
};

// The tensor leaves when it becomes idle. Its bytes are free from `free_from`, when its write is
// expected to end, to `needed_from`, when its read may start. Ops are unrolled. A value type.
struct PeriodMove {
  bool moved = false;
  bool writes = false;  // an offload; otherwise a drop, which uses the copy of an earlier move
  plan::Tier tier = plan::Tier::kSsd;  // that it comes back from
  int64_t free_from = 0;
  int64_t needed_from = 0;
  std::optional<Relay> relay = {};  // of a move that writes, to the drives

  plan::Tier leaves_for() const { return relay ? plan::Tier::kHost : tier; }
};

// Returns the moves as migrations, in the order in which they are issued. `move_of`: of each
// period of the problem. A pure function.
plan::Plan plan_of_moves(const Problem& problem,
                         const std::function<const PeriodMove&(int32_t)>& move_of);

// Returns the nanoseconds that a transfer takes when nothing else uses its channel.
inline double transfer_ns(int64_t size_bytes, int64_t bytes_per_second) {
  return static_cast<double>(size_bytes) / std::max(static_cast<double>(bytes_per_second), 1.0) *
         1e9;
}

// Returns the moved periods that write, in the order in which they leave. A pure function.
std::vector<int32_t> writers_in_order(const Problem& problem, const std::vector<PeriodMove>& moves);

}  // namespace teraio::planner
