#include "planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "planner/min_traffic.h"
#include "simulate/channels.h"
#include "simulate/tier_capacities.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

constexpr int64_t kIterations = 4;  // until two iterations in a row have the same traffic

// The bytes per second that all tiers together can move, at most.
struct Pipe {
  Pipe(const hardware::Hardware& hardware, const plan::Limits& limits) {
    const simulate::TierCapacities tiers(hardware, limits);
    const bool host = tiers[plan::Tier::kHost] > 0;
    const Rates ssd = tiers[plan::Tier::kSsd] > 0 ? ssd_rates(hardware) : Rates();
    const Rates host_rates = host ? hardware.host.rates : Rates();
    read = std::min(hardware.device_link.read_bytes_per_second,
                    ssd.read_bytes_per_second + host_rates.read_bytes_per_second);
    write = std::min(hardware.device_link.write_bytes_per_second,
                     ssd.write_bytes_per_second + host_rates.write_bytes_per_second);
    if (!host) duplex = ssd_duplex(hardware);
  }

  double transfer_ns(int64_t read_bytes, int64_t written_bytes) const {
    const double reading = read_bytes > 0 ? static_cast<double>(read_bytes) / read * 1e9 : 0;
    const double writing = written_bytes > 0 ? static_cast<double>(written_bytes) / write * 1e9 : 0;
    return std::max({reading, writing, (reading + writing) / duplex});
  }

  double read = 0;
  double write = 0;
  double duplex = 2.0;
};

// Ops at even steps of a mixture of op count and time, so that short phases get points too.
std::vector<int64_t> even_points(const trace::TraceIndex& index, int count) {
  const auto op_count = static_cast<double>(index.op_count());
  const double ideal_ns = std::max<double>(1, static_cast<double>(index.ideal_ns));
  std::vector<int64_t> points;
  double passed = 0;
  for (size_t k = 0; k < index.op_count(); ++k) {
    if (passed * count >= 2 * static_cast<double>(points.size())) points.push_back(k);
    passed += 1 / op_count + static_cast<double>(index.duration_ns[k]) / ideal_ns;
  }
  return points;
}

// A row of ops whose transfers take longer than its compute.
struct Burst {
  double excess_ns = 0;
  int64_t first = 0;
  int64_t end = 0;
};

// Returns the bursts of two iterations in a row. `transfer_ns`: of each op, and of both iterations.
std::vector<Burst> bursts_of(const trace::TraceIndex& index,
                             const std::vector<double>& transfer_ns) {
  std::vector<Burst> bursts;
  double excess_ns = 0;
  for (int64_t k = 0; k < std::ssize(transfer_ns); ++k) {
    const bool begins = excess_ns <= 0;
    if (begins) excess_ns = 0;
    excess_ns += transfer_ns[k] - static_cast<double>(index.duration_ns[k % index.op_count()]);
    if (excess_ns <= 0) continue;
    if (begins) bursts.push_back({0, k, k});
    if (excess_ns > bursts.back().excess_ns)
      bursts.back() = {excess_ns, bursts.back().first, k + 1};
  }
  return bursts;
}

// The transfer times of the ops of two iterations. `bytes` are cumulative, from the first op on.
std::vector<double> transfer_times(const std::vector<int64_t>& bytes, double bytes_per_second) {
  std::vector<double> times;
  for (size_t k = 0; k + 1 < bytes.size(); ++k) {
    const int64_t moved_bytes = bytes[k + 1] - bytes[k];
    times.push_back(moved_bytes > 0 ? static_cast<double>(moved_bytes) / bytes_per_second * 1e9
                                    : 0);
  }
  return times;
}

// Ops where the largest bursts begin and end when bytes move as late as they can, by Belady's rule
// for the whole iteration. Windows there are likely to be tight, and even steps miss short ones.
std::set<int64_t> burst_points(const trace::TraceIndex& index, int64_t budget_bytes,
                               const Pipe& pipe, int count) {
  const auto op_count = static_cast<int64_t>(index.op_count());
  const std::vector<int64_t> reads = min_reads(index, budget_bytes, 0, 2 * op_count);
  std::vector<int64_t> writes = min_writes(index, budget_bytes, 2 * op_count, 2 * op_count);
  std::reverse(writes.begin(), writes.end());  // they were counted backwards
  for (int64_t& bytes : writes) bytes = -bytes;
  std::vector<Burst> bursts = bursts_of(index, transfer_times(reads, pipe.read));
  for (const Burst& burst : bursts_of(index, transfer_times(writes, pipe.write)))
    bursts.push_back(burst);
  std::ranges::sort(bursts, std::greater(), &Burst::excess_ns);
  std::set<int64_t> points;
  for (const Burst& burst : bursts) {
    if (std::ssize(points) + 2 > count) break;
    points.insert({burst.first % op_count, burst.end % op_count});
  }
  return points;
}

// Points for the first cut: a quarter of all where bursts are, another quarter at even steps.
std::vector<int64_t> first_points(const trace::TraceIndex& index, int64_t budget_bytes,
                                  const Pipe& pipe, int count) {
  std::set<int64_t> points = burst_points(index, budget_bytes, pipe, count / 4);
  for (int64_t op : even_points(index, std::max(2, count / 4))) points.insert(op);
  return {points.begin(), points.end()};
}

// Windows from point i to the l-th point after it; they may extend past the end of the iteration.
class Windows {
 public:
  Windows(const trace::TraceIndex& index, int64_t budget_bytes, const Pipe& pipe)
      : index_(index),
        pipe_(pipe),
        budget_bytes_(budget_bytes),
        op_count_(static_cast<int64_t>(index.op_count())) {
    passed_ns_.assign(1, 0);
    for (int64_t k = 0; k < 2 * op_count_; ++k)
      passed_ns_.push_back(passed_ns_.back() +
                           static_cast<double>(index.duration_ns[k % op_count_]));
  }

  void add_points(const std::vector<int64_t>& ops) {
    for (int64_t op : ops)
      points_.push_back({op, min_reads(index_, budget_bytes_, op, op_count_),
                         min_writes(index_, budget_bytes_, op, op_count_)});
    std::sort(points_.begin(), points_.end(),
              [](const Point& a, const Point& b) { return a.op < b.op; });
  }

  struct Cut {
    double ns = 0;
    std::vector<size_t> tight;  // the points of windows that transfers determine
  };

  // Returns the best cut of an iteration, over all starting points.
  Cut best_cut() const {
    const size_t count = points_.size();
    std::vector<double> ns(count * (count + 1));
    for (size_t i = 0; i < count; ++i)
      for (size_t l = 1; l <= count; ++l) ns[i * (count + 1) + l] = window_ns(i, l);
    Cut best;
    for (size_t start = 0; start < count; ++start) {
      Cut cut = cut_from(start, ns);
      if (cut.ns > best.ns) best = std::move(cut);
    }
    return best;
  }

  // Returns the ops half way between each point in `tight` (every point when it is empty) and its
  // neighbors.
  std::vector<int64_t> between(std::vector<size_t> tight) const {
    std::set<int64_t> ops;
    if (tight.empty())
      for (size_t i = 0; i < points_.size(); ++i) tight.push_back(i);
    for (size_t i : tight) {
      if (i > 0) ops.insert((points_[i - 1].op + points_[i].op) / 2);
      if (i + 1 < points_.size()) ops.insert((points_[i].op + points_[i + 1].op) / 2);
    }
    for (const Point& point : points_) ops.erase(point.op);
    return {ops.begin(), ops.end()};
  }

 private:
  struct Point {
    int64_t op;
    std::vector<int64_t> reads;   // from here, forwards
    std::vector<int64_t> writes;  // from here, backwards
  };

  Cut cut_from(size_t start, const std::vector<double>& ns) const {
    const size_t count = points_.size();
    std::vector<double> best(count + 1);
    std::vector<size_t> length(count + 1);
    for (size_t end = 1; end <= count; ++end)
      for (size_t l = 1; l <= end; ++l) {
        const double total = best[end - l] + ns[(start + end - l) % count * (count + 1) + l];
        if (total <= best[end]) continue;
        best[end] = total;
        length[end] = l;
      }
    Cut cut{best[count], {}};
    for (size_t end = count; end > 0 && length[end] > 0; end -= length[end]) {
      const size_t first = (start + end - length[end]) % count;
      if (best[end] - best[end - length[end]] <= compute_ns(first, length[end])) continue;
      cut.tight.push_back(first);
      cut.tight.push_back((start + end) % count);
    }
    return cut;
  }

  int64_t end_op(size_t i, size_t l) const {
    const size_t end = i + l;
    return points_[end % points_.size()].op + (end >= points_.size() ? op_count_ : 0);
  }

  double compute_ns(size_t i, size_t l) const {
    return passed_ns_[end_op(i, l)] - passed_ns_[points_[i].op];
  }

  double window_ns(size_t i, size_t l) const {
    const int64_t length = end_op(i, l) - points_[i].op;
    const Point& end = points_[(i + l) % points_.size()];
    return std::max(compute_ns(i, l),
                    pipe_.transfer_ns(points_[i].reads[length], end.writes[length]));
  }

  const trace::TraceIndex& index_;
  const Pipe& pipe_;
  const int64_t budget_bytes_;
  const int64_t op_count_;
  std::vector<Point> points_;
  std::vector<double> passed_ns_;
};

// Begins with half of the points and places the others next to the windows that transfers
// determine in the best cut so far.
double longest_cut_ns(const trace::TraceIndex& index, int64_t budget_bytes, const Pipe& pipe,
                      int point_count) {
  Windows windows(index, budget_bytes, pipe);
  std::vector<int64_t> more = first_points(index, budget_bytes, pipe, point_count);
  double longest_ns = 0;
  for (size_t points = 0; !more.empty() && points + more.size() <= point_count;) {
    points += more.size();
    windows.add_points(more);
    const Windows::Cut cut = windows.best_cut();
    longest_ns = std::max(longest_ns, cut.ns);
    more = windows.between(cut.tight);
    if (points < point_count) more.resize(std::min<size_t>(more.size(), point_count - points));
  }
  return longest_ns;
}

// The bytes of an iteration in steady state: those of the last of several iterations, or their mean
// when they still differ.
int64_t per_iteration(const std::vector<int64_t>& cumulative, int64_t op_count) {
  const auto after = [&](int64_t iterations) { return cumulative[iterations * op_count]; };
  const int64_t last = after(kIterations) - after(kIterations - 1);
  const int64_t before = after(kIterations - 1) - after(kIterations - 2);
  return last == before ? last : after(kIterations) / kIterations;
}

int64_t round_down(double ns) { return static_cast<int64_t>(std::floor(ns * (1 - 1e-12))); }

}  // namespace

int64_t StepBounds::best_ns() const { return std::max({compute_ns, traffic_ns, windows_ns}); }

StepBounds lower_bounds(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, int window_points) {
  const trace::TraceIndex index(trace);
  StepBounds bounds;
  bounds.compute_ns = index.ideal_ns;
  if (trace.ops.empty()) return bounds;
  const auto op_count = static_cast<int64_t>(index.op_count());
  const Pipe pipe(hardware, limits);
  const int64_t budget_bytes = limits.device_budget_bytes.value_or(hardware.device_memory_bytes);
  const int64_t length = kIterations * op_count;
  const int64_t read_bytes = per_iteration(min_reads(index, budget_bytes, 0, length), op_count);
  const int64_t written_bytes = per_iteration(min_writes(index, budget_bytes, 0, length), op_count);
  if (read_bytes == 0 && written_bytes == 0) return bounds;
  bounds.traffic_ns = round_down(pipe.transfer_ns(read_bytes, written_bytes));
  bounds.windows_ns = round_down(longest_cut_ns(index, budget_bytes, pipe, window_points));
  return bounds;
}

}  // namespace teraio::planner
