#include "analysis/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "planner/planner.h"
#include "simulate/tier_capacities.h"
#include "trace/trace_index.h"

namespace teraio::analysis {
namespace {

enum class Trend : uint8_t { kGrows, kShrinks, kUpdates };

bool makes_gradient(const trace::Trace& trace, const trace::Op& op) {
  return std::any_of(op.writes.begin(), op.writes.end(), [&trace](trace::TensorIndex tensor) {
    return trace.tensors[tensor].kind == trace::TensorKind::kGradient;
  });
}

bool updates_model(const trace::Trace& trace, const trace::Op& op) {
  return std::any_of(op.writes.begin(), op.writes.end(), [&trace](trace::TensorIndex tensor) {
    const trace::TensorKind kind = trace.tensors[tensor].kind;
    return trace.tensors[tensor].persistent &&
           (kind == trace::TensorKind::kParameter || kind == trace::TensorKind::kOptimizerState);
  });
}

// Returns the bytes of transient tensors after each op, without gradients: gradients grow in the
// first backward phase, while all other transient memory shrinks, and stay until the update.
std::vector<int64_t> transient_bytes(const trace::Trace& trace) {
  const trace::TraceIndex index(trace);
  std::vector<int64_t> levels(index.op_count() + 1);
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    const trace::Tensor& tensor = trace.tensors[i];
    if (tensor.persistent || tensor.kind == trace::TensorKind::kGradient || index.uses[i].empty())
      continue;
    levels[index.first_op[i]] += tensor.size_bytes;
    levels[index.last_op[i]] -= tensor.size_bytes;
  }
  levels.pop_back();
  std::partial_sum(levels.begin(), levels.end(), levels.begin());
  return levels;
}

// Returns the ops after which memory changes its direction by more than a quarter of its highest
// level.
std::vector<size_t> turning_points(const std::vector<int64_t>& levels) {
  const int64_t swing = levels.empty() ? 0 : *std::max_element(levels.begin(), levels.end()) / 4;
  std::vector<size_t> turns;
  size_t extreme = 0;
  bool grows = true;
  for (size_t k = 0; k < levels.size(); ++k) {
    const int64_t beyond = grows ? levels[k] - levels[extreme] : levels[extreme] - levels[k];
    if (beyond >= 0) extreme = k;
    if (beyond < -swing) {
      turns.push_back(extreme);
      extreme = k;
      grows = !grows;
    }
  }
  return turns;
}

// Returns the first op from `from` on that writes the model after the last op that writes a
// gradient. The clipping of gradients, and the temporary values that an optimizer computes before
// its first write, belong to the phase before.
size_t start_of_update(const trace::Trace& trace, size_t from) {
  for (size_t k = from; k < trace.ops.size(); ++k)
    if (makes_gradient(trace, trace.ops[k])) from = k + 1;
  while (from < trace.ops.size() && !updates_model(trace, trace.ops[from])) ++from;
  return from;
}

std::vector<Trend> trend_of_ops(const trace::Trace& trace) {
  const std::vector<size_t> turns = turning_points(transient_bytes(trace));
  std::vector<Trend> trends;
  size_t turn = 0;
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    if (turn < turns.size() && k > turns[turn]) ++turn;
    trends.push_back(turn % 2 == 0 ? Trend::kGrows : Trend::kShrinks);
  }
  const size_t update = start_of_update(trace, turns.empty() ? 0 : turns.back() + 1);
  std::fill(trends.begin() + static_cast<int64_t>(update), trends.end(), Trend::kUpdates);
  return trends;
}

std::string name_of(Trend trend) {
  switch (trend) {
    case Trend::kGrows:
      return "forward";
    case Trend::kShrinks:
      return "backward";
    case Trend::kUpdates:
      return "update";
  }
  return "";
}

std::string describe(const simulate::TransferRecord& record, const trace::Trace& trace) {
  const bool read = record.action == plan::Action::kPrefetch;
  return fmt::format("{} of {} {} {}", read ? "read" : "write",
                     to_string(trace.tensors[record.tensor].kind), read ? "from" : "to",
                     to_string(record.tier));
}

// A step that waits for less than this share of it is bound by what it computes.
constexpr double kHardlyWaits = 0.01;
constexpr double kNearlyAll = 0.95;

bool is_nearly_all(int64_t bytes, int64_t of_bytes) {
  return of_bytes > 0 && static_cast<double>(bytes) >= kNearlyAll * static_cast<double>(of_bytes);
}

// Of a transfer that ops wait for.
std::string channel_of(const simulate::TransferRecord& record) {
  const bool is_read = record.action == plan::Action::kPrefetch;
  const bool is_ssd = record.tier == plan::Tier::kSsd;
  return fmt::format("{} {}", is_read ? "reads from" : "writes to",
                     is_ssd ? "the drives" : "host memory over the link");
}

// The channel that ops wait for most, and how long.
std::pair<std::string, int64_t> longest_wait(const simulate::Run& run, const trace::Trace& trace) {
  std::unordered_map<int64_t, std::string> ended;
  for (const simulate::TransferRecord& record : run.transfers)
    if (record.action != plan::Action::kDrop) ended[record.end_ns] = channel_of(record);
  std::map<std::string, int64_t> sums;
  for (const simulate::Wait& wait : simulate::waits_of(run, trace))
    sums[ended.contains(wait.end_ns) ? ended[wait.end_ns] : "device memory"] += wait.stall_ns;
  if (sums.empty()) return {};
  return *std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
}

}  // namespace

std::vector<Phase> phases_of(const trace::Trace& trace) {
  const std::vector<Trend> trends = trend_of_ops(trace);
  std::vector<Phase> phases;
  for (size_t k = 0; k < trends.size(); ++k) {
    const auto op = static_cast<trace::OpIndex>(k);
    if (k == 0 || trends[k] != trends[k - 1]) phases.push_back({name_of(trends[k]), op, op});
    phases.back().last_op = op;
  }
  return phases;
}

std::vector<StallShare> stall_by_phase(const simulate::Run& run, const trace::Trace& trace) {
  const std::vector<int64_t> stalls = simulate::stall_of_ops(run, trace);
  std::vector<StallShare> shares;
  for (const Phase& phase : phases_of(trace)) {
    StallShare share{phase.name};
    for (trace::OpIndex op = phase.first_op; op <= phase.last_op; ++op) {
      share.compute_ns += trace.ops[op].duration_ns;
      share.stall_ns += stalls[op];
    }
    for (const simulate::ReplayRecord& replay : run.replays)
      if (replay.before_op >= phase.first_op && replay.before_op <= phase.last_op)
        share.replay_ns += replay.end_ns - replay.start_ns;
    shares.push_back(share);
  }
  return shares;
}

std::vector<StallShare> stall_by_transfer(const simulate::Run& run, const trace::Trace& trace) {
  std::unordered_map<int64_t, std::string> ended;  // the transfer that ended at a time
  for (const simulate::TransferRecord& record : run.transfers)
    if (record.action != plan::Action::kDrop) ended[record.end_ns] = describe(record, trace);
  std::map<std::string, int64_t> sums;
  for (const simulate::Wait& wait : simulate::waits_of(run, trace))
    sums[ended[wait.end_ns]] += wait.stall_ns;
  std::vector<StallShare> shares;
  for (const auto& [what, stall_ns] : sums) shares.push_back({what, 0, stall_ns});
  std::stable_sort(shares.begin(), shares.end(), [](const StallShare& a, const StallShare& b) {
    return a.stall_ns > b.stall_ns;
  });
  return shares;
}

std::string binding_of(const simulate::Run& run, const trace::Trace& trace,
                       const hardware::Hardware& hardware, const plan::Limits& limits) {
  const auto share = [&](int64_t duration_ns) {
    return static_cast<double>(duration_ns) /
           static_cast<double>(std::max<int64_t>(run.step_ns, 1));
  };
  const auto [channel, wait_ns] = longest_wait(run, trace);
  if (share(run.stall_ns) < kHardlyWaits)
    return run.replay_ns > 0 && share(run.replay_ns) >= kHardlyWaits
               ? fmt::format("bound by compute, of which {:.0f} % are replays",
                             100 * share(run.replay_ns))
               : "bound by compute: ops hardly wait";
  std::string text = fmt::format("bound by {}: {} of waiting, {:.0f} % of the step", channel,
                                 format_duration(wait_ns), 100 * share(wait_ns));
  const int64_t host_bytes = simulate::TierCapacities(hardware, limits)[plan::Tier::kHost];
  if (run.ssd_bytes_read > 0 && is_nearly_all(run.host_peak_bytes, host_bytes))
    text += "; host memory is full";
  const int64_t op_bytes = planner::min_device_budget_bytes(trace, limits);
  const int64_t device_bytes = limits.device_budget_bytes.value_or(hardware.device_memory_bytes);
  if (is_nearly_all(op_bytes, device_bytes)) text += "; one op needs nearly all device memory";
  return text;
}

}  // namespace teraio::analysis
