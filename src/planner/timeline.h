// Timeline: when the ops of an iteration run, stretched by stalls, and the price of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace teraio::planner {

// Ops are unrolled over four iterations, which is as far as a write or a read may reach. A value
// type.
class Timeline {
 public:
  // `op_ns`: from the end of its predecessor to the end of each op. `prices`: of a nanosecond of a
  // transfer at each op; empty: 1 everywhere.
  explicit Timeline(const std::vector<double>& op_ns, std::vector<double> prices = {})
      : count_(static_cast<int64_t>(op_ns.size())), prices_(std::move(prices)) {
    start_ns_.reserve(kIterations * op_ns.size() + 1);
    start_ns_.push_back(0);
    for (int i = 0; i < kIterations; ++i)
      for (double ns : op_ns) start_ns_.push_back(start_ns_.back() + ns);
  }

  double start_ns(int64_t op) const { return start_ns_[op]; }
  double step_ns() const { return start_ns_[count_]; }
  double price(int64_t op) const { return prices_.empty() ? 1 : prices_[op % count_]; }
  // The first op that starts at `ns` or later.
  int64_t op_at(double ns) const {
    return std::ranges::lower_bound(start_ns_, ns) - start_ns_.begin();
  }

 private:
  static constexpr int kIterations = 4;

  int64_t count_;
  std::vector<double> start_ns_;
  std::vector<double> prices_;
};

}  // namespace teraio::planner
