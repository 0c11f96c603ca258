// Random traces and machines for property tests. The same seed gives the same result everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "trace/lifetimes.h"
#include "trace/trace.h"

namespace teraio::testing {

// splitmix64, because the standard's distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t between(int64_t low, int64_t high) {  // both inclusive
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  double fraction() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return fraction() < probability; }
  // Uniformly distributed on a logarithmic scale.
  int64_t scaled(int64_t low, int64_t high) {
    const double exponent = fraction() * std::log(static_cast<double>(high) / low);
    return std::clamp(static_cast<int64_t>(low * std::exp(exponent)), low, high);
  }

 private:
  uint64_t state_;
};

struct GeneratedTraceOptions {
  int64_t op_count = 60;
  int64_t persistent_count = 8;
  int64_t smallest_bytes = 1;
  int64_t largest_bytes = 10'000'000'000;
  int64_t longest_op_ns = 50'000'000;
};

// Builds a trace op by op from the tensors that are alive.
class TraceGenerator {
 public:
  TraceGenerator(uint64_t seed, const GeneratedTraceOptions& options)
      : random_(seed), options_(options) {
    trace_.name = "generated " + std::to_string(seed);
    trace_.source = "generated";
  }

  trace::Trace run() {
    for (int64_t i = 0; i < options_.persistent_count; ++i) add_persistent();
    for (int64_t k = 0; k < options_.op_count; ++k) add_op();
    return std::move(trace_);
  }

 private:
  trace::TensorIndex add_tensor(bool persistent, trace::TensorKind kind) {
    const auto index = static_cast<trace::TensorIndex>(trace_.tensors.size());
    const int64_t size_bytes = random_.scaled(options_.smallest_bytes, options_.largest_bytes);
    trace_.tensors.push_back({3 * index + 7, size_bytes, persistent, kind, ""});
    return index;
  }

  void add_persistent() {
    const bool frozen = random_.chance(0.3);
    const trace::TensorIndex tensor = add_tensor(true, trace::TensorKind::kParameter);
    (frozen ? frozen_ : written_).push_back(tensor);
  }

  void add_op() {
    trace::Op op;
    op.name = "op" + std::to_string(trace_.ops.size());
    op.duration_ns = random_.chance(0.05) ? 0 : random_.scaled(1'000, options_.longest_op_ns);
    if (random_.chance(0.2)) op.workspace_bytes = random_.scaled(1, options_.largest_bytes / 10);
    used_.clear();
    use(op.reads, written_, 0.4);
    use(op.reads, frozen_, 0.3);
    use(op.reads, alive_, 0.6);
    use(op.reads, alive_, 0.3);
    use(op.writes, alive_, 0.2);
    use(op.writes, written_, 0.2);
    if (random_.chance(0.7)) be_born(op);
    while (alive_.size() > 30 || (!alive_.empty() && random_.chance(0.35))) free_one(op);
    trace_.ops.push_back(std::move(op));
  }

  void use(std::vector<trace::TensorIndex>& list, const std::vector<trace::TensorIndex>& from,
           double chance) {
    if (from.empty() || !random_.chance(chance)) return;
    const trace::TensorIndex tensor =
        from[random_.between(0, static_cast<int64_t>(from.size()) - 1)];
    if (std::find(used_.begin(), used_.end(), tensor) != used_.end()) return;
    used_.push_back(tensor);
    list.push_back(tensor);
  }

  void be_born(trace::Op& op) {
    const trace::TensorIndex tensor = add_tensor(false, trace::TensorKind::kActivation);
    op.writes.push_back(tensor);
    alive_.push_back(tensor);
  }

  // Prefers the newest tensor, for short and long lives. Some are not freed and die at their last
  // use.
  void free_one(trace::Op& op) {
    const auto last = static_cast<int64_t>(alive_.size()) - 1;
    const int64_t i = random_.chance(0.5) ? last : random_.between(0, last);
    if (random_.chance(0.8)) op.frees.push_back(alive_[i]);
    alive_.erase(alive_.begin() + i);
  }

  Random random_;
  const GeneratedTraceOptions options_;
  trace::Trace trace_;
  std::vector<trace::TensorIndex> written_;
  std::vector<trace::TensorIndex> frozen_;
  std::vector<trace::TensorIndex> alive_;
  std::vector<trace::TensorIndex> used_;
};

inline trace::Trace generated_trace(uint64_t seed, const GeneratedTraceOptions& options = {}) {
  return TraceGenerator(seed, options).run();
}

// A machine with drives that hold everything, with or without host memory. Its device memory lies
// between the two sizes.
inline hardware::Hardware generated_hardware(uint64_t seed, int64_t least_bytes,
                                             int64_t most_bytes) {
  Random random(seed ^ 0x5eed);
  hardware::Hardware hardware;
  hardware.name = "generated " + std::to_string(seed);
  hardware.device_memory_bytes =
      random.between(std::max<int64_t>(1, least_bytes), std::max<int64_t>(1, most_bytes));
  const int64_t rate = random.scaled(1'000'000'000, 100'000'000'000);
  hardware.device_link = {random.between(rate / 2, 2 * rate), random.between(rate / 2, 2 * rate)};
  const int64_t host_bytes = random.chance(0.5) ? random.between(0, most_bytes) : 0;
  hardware.host = {host_bytes, {random.between(rate / 2, rate), random.between(rate / 2, rate)}};
  const double duplex = random.chance(0.5) ? 2.0 : 1.0 + random.fraction();
  hardware.drives = {{"d0", 64 * most_bytes + 1, {rate / 2, rate / 3}, duplex, {}},
                     {"d1", 64 * most_bytes + 1, {rate / 4, rate / 3}, duplex, {}}};
  hardware.request_latency_ns = random.chance(0.5) ? 0 : random.between(1, 100'000);
  return hardware;
}

// A machine for a trace: its device memory lies between the need of the largest op and that of the
// whole trace.
inline hardware::Hardware generated_hardware(uint64_t seed, const trace::Trace& trace) {
  const trace::Lifetimes lifetimes = lifetimes_of(trace);
  return generated_hardware(seed, *std::ranges::max_element(lifetimes.active_bytes),
                            *std::ranges::max_element(lifetimes.footprint_bytes));
}

}  // namespace teraio::testing
