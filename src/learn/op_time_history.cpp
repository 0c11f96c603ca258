#include "learn/op_time_history.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/log.h"

namespace teraio::learn {
namespace {

constexpr size_t kIterationsKept = 3;

int64_t middle_of(std::vector<int64_t>& times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return std::max<int64_t>(*middle, 0);
}

}  // namespace

void OpTimeHistory::start_iteration(int64_t now_ns, int64_t stall_ns, bool is_timed) {
  durations_ns_.clear();
  last_op_end_ns_ = now_ns;
  last_op_end_stall_ns_ = stall_ns;
  is_timed_ = is_timed;
  if (is_timed && timer_ != nullptr) timer_->start();
}

int64_t OpTimeHistory::end_op(int64_t now_ns, int64_t stall_ns) {
  const int64_t duration_ns = now_ns - last_op_end_ns_ - (stall_ns - last_op_end_stall_ns_);
  durations_ns_.push_back(duration_ns);
  if (timer_ != nullptr) timer_->end_op();
  last_op_end_ns_ = now_ns;
  last_op_end_stall_ns_ = stall_ns;
  return duration_ns;
}

void OpTimeHistory::leave_out(int64_t duration_ns) {
  last_op_end_ns_ += duration_ns;
  if (is_timed_ && timer_ != nullptr) timer_->leave_out();
}

// A timer is read, and waited for, only after an iteration that plans come from.
void OpTimeHistory::end_iteration(int64_t step, bool is_repeated, bool are_wanted) {
  if (!is_repeated) history_.clear();
  if (!std::exchange(is_timed_, false)) return;
  if (timer_ == nullptr) return keep(step);
  if (!are_wanted) return;
  Result<std::vector<int64_t>> times = timer_->durations_ns();
  if (!times.ok())
    return spdlog::warn(
        "teraio: the times of the ops could not be read: {}. Plans use earlier times, and training "
        "needs nothing else{}",
        times.status().message(), detail_lines(times.status()));
  durations_ns_ = std::move(*times);
  keep(step);
}

void OpTimeHistory::keep(int64_t step) {
  std::vector<int64_t> spare;  // its memory serves the next iteration
  if (history_.size() == kIterationsKept) {
    spare = std::move(history_.front().durations_ns);
    history_.pop_front();
  }
  history_.push_back({step, std::exchange(durations_ns_, std::move(spare))});
}

// The middle times of all ops together are less than any iteration takes, since each iteration is
// disturbed at other ops. So they are stretched to the middle iteration.
std::optional<TimedSteps> OpTimeHistory::apply_to(iteration::Profile& profile,
                                                  int64_t first_step) const {
  std::vector<trace::Op>& ops = profile.trace.ops;
  std::vector<const std::vector<int64_t>*> iterations;
  TimedSteps steps;
  for (const Timed& timed : history_) {
    if (timed.step < first_step || timed.durations_ns.size() != ops.size()) continue;
    if (iterations.empty()) steps.first = timed.step;
    steps.last = timed.step;
    iterations.push_back(&timed.durations_ns);
  }
  if (iterations.empty()) return std::nullopt;
  std::vector<int64_t> times;
  for (const auto* durations_ns : iterations)
    times.push_back(std::accumulate(durations_ns->begin(), durations_ns->end(), int64_t{0}));
  const int64_t iteration_ns = middle_of(times);
  int64_t ops_ns = 0;
  for (size_t op = 0; op < ops.size(); ++op) {
    for (size_t i = 0; i < iterations.size(); ++i) times[i] = (*iterations[i])[op];
    ops[op].duration_ns = middle_of(times);
    ops_ns += ops[op].duration_ns;
  }
  if (ops_ns == 0) return steps;
  const double stretch = static_cast<double>(iteration_ns) / static_cast<double>(ops_ns);
  for (trace::Op& op : ops)
    op.duration_ns = std::llround(static_cast<double>(op.duration_ns) * stretch);
  return steps;
}

}  // namespace teraio::learn
