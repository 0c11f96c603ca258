#include "analysis/characterization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "analysis/explanation.h"
#include "analysis/parallel_for.h"
#include "base/json_file.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "trace/lifetimes.h"
#include "trace/trace_index.h"

namespace teraio::analysis {
namespace {

constexpr double kCellsPerDecade = 10;

double start_of_cell(int cell) { return std::pow(10.0, cell / kCellsPerDecade); }

// Returns the cell of a value; values below 1 count as 1. Corrects for rounding, so that no cell
// begins above a value in it.
int cell_of(int64_t value) {
  const auto number = static_cast<double>(std::max<int64_t>(value, 1));
  int cell = static_cast<int>(std::floor(std::log10(number) * kCellsPerDecade));
  if (start_of_cell(cell + 1) <= number) ++cell;
  if (start_of_cell(cell) > number) --cell;
  return cell;
}

// Returns the median, the lower of the two middle values of an even number; 0 without values.
int64_t median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + (static_cast<int64_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Collector {
 public:
  Collector(const trace::Trace& trace, size_t tensor_count)
      : trace_(trace),
        index_(trace),
        lifetimes_(lifetimes_of(index_)),
        tensor_count_(tensor_count) {
    start_ns_.push_back(0);
    for (const trace::Op& op : trace.ops) start_ns_.push_back(start_ns_.back() + op.duration_ns);
    longest_idle_ns_.resize(trace.tensors.size());
    std::erase_if(lifetimes_.periods, [](const trace::InactivePeriod& p) { return p.until_freed; });
    for (const trace::InactivePeriod& period : lifetimes_.periods) {
      idle_ns_.push_back(start_of(period.end) - start_of(period.first));
      int64_t& longest_ns = longest_idle_ns_[period.tensor];
      longest_ns = std::max(longest_ns, idle_ns_.back());
    }
  }

  Characterization run() {
    Characterization result;
    result.step_ns = start_ns_.back();
    for (size_t k = 0; k < trace_.ops.size(); ++k)
      result.ops.push_back(
          {lifetimes_.footprint_bytes[k], index_.active_bytes(static_cast<trace::OpIndex>(k))});
    result.phases = phases(result.ops);
    result.kinds = kinds();
    result.cells = cells();
    result.largest = first_tensors([this](trace::TensorIndex tensor) {
      return std::pair(trace_.tensors[tensor].size_bytes, longest_idle_ns_[tensor]);
    });
    result.longest_idle = first_tensors([this](trace::TensorIndex tensor) {
      return std::pair(hundredths_of_step(longest_idle_ns_[tensor]),
                       trace_.tensors[tensor].size_bytes);
    });
    return result;
  }

 private:
  int64_t op_count() const { return static_cast<int64_t>(trace_.ops.size()); }

  int64_t hundredths_of_step(int64_t duration_ns) const {
    return std::llround(100.0 * static_cast<double>(duration_ns) /
                        static_cast<double>(std::max<int64_t>(1, start_ns_.back())));
  }

  // The start of an unrolled op, in ns.
  int64_t start_of(int64_t op) const {
    return op <= op_count() ? start_ns_[op] : start_ns_.back() + start_ns_[op - op_count()];
  }

  std::vector<PhaseMemory> phases(const std::vector<OpMemory>& ops) const {
    std::vector<PhaseMemory> phases;
    for (const Phase& phase : phases_of(trace_))
      phases.push_back(phase_memory(phase.name, phase.first_op, phase.last_op + 1, ops));
    phases.push_back(phase_memory("whole step", 0, static_cast<trace::OpIndex>(ops.size()), ops));
    return phases;
  }

  PhaseMemory phase_memory(const std::string& name, trace::OpIndex first, trace::OpIndex end,
                           const std::vector<OpMemory>& ops) const {
    PhaseMemory phase{name, end - first, start_ns_[end] - start_ns_[first]};
    double bytes = 0;
    double byte_ns = 0;
    for (trace::OpIndex k = first; k < end; ++k) {
      phase.all_bytes_max = std::max(phase.all_bytes_max, ops[k].all_bytes);
      phase.active_bytes_max = std::max(phase.active_bytes_max, ops[k].active_bytes);
      bytes += static_cast<double>(ops[k].active_bytes);
      byte_ns +=
          static_cast<double>(ops[k].active_bytes) * static_cast<double>(trace_.ops[k].duration_ns);
    }
    phase.active_bytes_mean = bytes / static_cast<double>(std::max<int64_t>(1, phase.op_count));
    phase.active_bytes_mean_in_time =
        byte_ns / static_cast<double>(std::max<int64_t>(1, phase.duration_ns));
    return phase;
  }

  std::vector<KindSummary> kinds() const {
    std::vector<KindSummary> kinds;
    for (int i = 0; i <= static_cast<int>(trace::TensorKind::kOther); ++i) {
      const auto kind = static_cast<trace::TensorKind>(i);
      const KindSummary found =
          summary(std::string(to_string(kind)),
                  [&](trace::TensorIndex tensor) { return trace_.tensors[tensor].kind == kind; });
      if (found.tensor_count > 0) kinds.push_back(found);
    }
    kinds.push_back(summary("all", [](trace::TensorIndex) { return true; }));
    return kinds;
  }

  KindSummary summary(std::string name,
                      const std::function<bool(trace::TensorIndex)>& counts) const {
    KindSummary summary;
    summary.kind = std::move(name);
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < index_.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (index_.uses[i].empty() || !counts(tensor)) continue;
      sizes.push_back(trace_.tensors[i].size_bytes);
      count_tensor(sizes.back(), longest_idle_ns_[i] > kLongIdleNs, summary);
    }
    summary.tensor_count = static_cast<int64_t>(sizes.size());
    summary.median_bytes = median(std::move(sizes));
    count_periods(counts, summary);
    return summary;
  }

  static void count_tensor(int64_t size_bytes, bool has_long_period, KindSummary& summary) {
    const bool middle = size_bytes >= kMiddleSizeBytes && size_bytes <= kHugeSizeBytes;
    summary.middle_count += middle;
    summary.large_count += size_bytes >= kLargeSizeBytes;
    summary.long_tensor_count += has_long_period;
    summary.long_middle_tensor_count += middle && has_long_period;
  }

  void count_periods(const std::function<bool(trace::TensorIndex)>& counts,
                     KindSummary& summary) const {
    std::vector<int64_t> idle_ns;
    for (size_t i = 0; i < idle_ns_.size(); ++i) {
      if (!counts(lifetimes_.periods[i].tensor)) continue;
      idle_ns.push_back(idle_ns_[i]);
      summary.long_period_count += idle_ns_[i] > kLongIdleNs;
    }
    summary.period_count = static_cast<int64_t>(idle_ns.size());
    summary.median_idle_ns = median(std::move(idle_ns));
  }

  std::vector<PeriodCell> cells() const {
    std::map<std::tuple<trace::TensorKind, int, int>, int64_t> counts;
    for (size_t i = 0; i < idle_ns_.size(); ++i) {
      const trace::Tensor& tensor = trace_.tensors[lifetimes_.periods[i].tensor];
      ++counts[{tensor.kind, cell_of(tensor.size_bytes), cell_of(idle_ns_[i])}];
    }
    std::vector<PeriodCell> cells;
    for (const auto& [cell, count] : counts)
      cells.push_back({std::get<0>(cell), start_of_cell(std::get<1>(cell)),
                       start_of_cell(std::get<2>(cell)), count});
    return cells;
  }

  // Returns the tensors with the largest keys, largest first; those with equal keys in the order of
  // the trace.
  template <typename Key>
  std::vector<IdleTensor> first_tensors(Key key) const {
    std::vector<trace::TensorIndex> used;
    for (size_t i = 0; i < index_.tensor_count(); ++i)
      if (!index_.uses[i].empty()) used.push_back(static_cast<trace::TensorIndex>(i));
    std::stable_sort(used.begin(), used.end(),
                     [&](trace::TensorIndex a, trace::TensorIndex b) { return key(a) > key(b); });
    used.resize(std::min(used.size(), tensor_count_));
    std::vector<IdleTensor> listed;
    for (trace::TensorIndex tensor : used)
      listed.push_back({tensor, label(tensor), longest_idle_ns_[tensor],
                        static_cast<int64_t>(index_.uses[tensor].size())});
    return listed;
  }

  std::string label(trace::TensorIndex index) const {
    const trace::Tensor& tensor = trace_.tensors[index];
    if (!tensor.name.empty()) return tensor.name;
    const trace::OpIndex first_op = index_.uses[index].front().op;
    return fmt::format("tensor {}, first in op {} ({})", tensor.id, first_op,
                       trace_.ops[first_op].name);
  }

  const trace::Trace& trace_;
  const trace::TraceIndex index_;
  trace::Lifetimes lifetimes_;  // without periods that end when the tensor is freed
  const size_t tensor_count_;
  std::vector<int64_t> start_ns_;         // per op, and the end of the last op
  std::vector<int64_t> longest_idle_ns_;  // per tensor
  std::vector<int64_t> idle_ns_;          // per period of lifetimes_
};

constexpr int64_t kWithoutLimit = int64_t{1} << 56;
constexpr int kThreads = 2;

hardware::Hardware machine_with(int64_t device_memory_bytes, int64_t rate) {
  hardware::Hardware hardware;
  hardware.name = "roofline";
  hardware.device_memory_bytes = device_memory_bytes;
  hardware.device_link = {kWithoutLimit, kWithoutLimit};
  hardware.drives = {{"drives", kWithoutLimit, {rate, rate}, 2.0, {}}};
  return hardware;
}

double fraction_at(const trace::Trace& trace, int64_t device_memory_bytes, int64_t rate) {
  const planner::StepBounds bounds =
      planner::lower_bounds(trace, machine_with(device_memory_bytes, rate), {});
  if (bounds.best_ns() == 0) return 1.0;
  return static_cast<double>(bounds.compute_ns) / static_cast<double>(bounds.best_ns());
}

using Json = nlohmann::ordered_json;

constexpr const char* kCharacterizationFormat = "teraio-characterization/1";

Json to_json(const PhaseMemory& phase) {
  return {{"name", phase.name},
          {"ops", phase.op_count},
          {"duration_ns", phase.duration_ns},
          {"all_bytes_max", phase.all_bytes_max},
          {"active_bytes_max", phase.active_bytes_max},
          {"active_bytes_mean", phase.active_bytes_mean},
          {"active_bytes_mean_in_time", phase.active_bytes_mean_in_time}};
}

Json to_json(const KindSummary& kind) {
  return {{"kind", kind.kind},
          {"tensors", kind.tensor_count},
          {"tensors_10MB_to_1GB", kind.middle_count},
          {"tensors_100MB_and_more", kind.large_count},
          {"tensors_idle_above_10ms", kind.long_tensor_count},
          {"tensors_10MB_to_1GB_idle_above_10ms", kind.long_middle_tensor_count},
          {"periods", kind.period_count},
          {"periods_above_10ms", kind.long_period_count},
          {"median_bytes", kind.median_bytes},
          {"median_idle_ns", kind.median_idle_ns}};
}

Json to_json(const PeriodCell& cell) {
  return {{"kind", to_string(cell.kind)},
          {"bytes_from", cell.size_bytes_from},
          {"idle_ns_from", cell.idle_ns_from},
          {"periods", cell.period_count}};
}

Json to_json(const RooflinePoint& point) {
  return {{"bytes_per_second", point.bytes_per_second},
          {"fraction_of_ideal", point.fraction_of_ideal}};
}

Json to_json(const IdleTensor& listed, const trace::Trace& trace) {
  const trace::Tensor& tensor = trace.tensors[listed.tensor];
  return {{"id", tensor.id},
          {"label", listed.label},
          {"kind", to_string(tensor.kind)},
          {"bytes", tensor.size_bytes},
          {"longest_idle_ns", listed.longest_idle_ns},
          {"uses", listed.use_count}};
}

template <typename T, typename... Context>
Json list_of(const std::vector<T>& values, const Context&... context) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value, context...));
  return list;
}

// Columns instead of an object per op: there can be 10^5 ops.
template <typename T>
Json column(const std::vector<T>& rows, int64_t T::*field) {
  Json column = Json::array();
  for (const T& row : rows) column.push_back(row.*field);
  return column;
}

Json to_json(const CharacterizedTrace& given) {
  Json json = {
      {"name", given.trace.name}, {"source", given.trace.source}, {"step_ns", given.facts.step_ns}};
  if (given.capacity_bytes) json["capacity_bytes"] = *given.capacity_bytes;
  json["phases"] = list_of(given.facts.phases);
  json["kinds"] = list_of(given.facts.kinds);
  json["roofline"] = list_of(given.roofline);
  json["largest"] = list_of(given.facts.largest, given.trace);
  json["longest_idle"] = list_of(given.facts.longest_idle, given.trace);
  json["period_cells"] = list_of(given.facts.cells);
  json["per_op"] = {{"duration_ns", column(given.trace.ops, &trace::Op::duration_ns)},
                    {"all_bytes", column(given.facts.ops, &OpMemory::all_bytes)},
                    {"active_bytes", column(given.facts.ops, &OpMemory::active_bytes)}};
  return json;
}

}  // namespace

PeakMemory memory_at_peak(const trace::Trace& trace) {
  const trace::TraceIndex index(trace);
  const std::vector<int64_t> footprint_bytes = lifetimes_of(index).footprint_bytes;
  const auto largest = std::max_element(footprint_bytes.begin(), footprint_bytes.end());
  const auto op = static_cast<trace::OpIndex>(largest - footprint_bytes.begin());
  std::map<trace::TensorKind, int64_t> bytes_by_kind;
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    const trace::Tensor& tensor = trace.tensors[i];
    if (index.is_alive(static_cast<trace::TensorIndex>(i), op))
      bytes_by_kind[tensor.kind] += tensor.size_bytes;
  }
  bytes_by_kind[trace::TensorKind::kWorkspace] += trace.ops[op].workspace_bytes;
  PeakMemory peak{op, {}};
  for (const auto& [kind, size_bytes] : bytes_by_kind)
    if (size_bytes > 0) peak.kinds.push_back({kind, size_bytes});
  std::stable_sort(
      peak.kinds.begin(), peak.kinds.end(),
      [](const KindBytes& a, const KindBytes& b) { return a.size_bytes > b.size_bytes; });
  return peak;
}

Characterization characterize(const trace::Trace& trace, size_t tensor_count) {
  return Collector(trace, tensor_count).run();
}

Result<std::vector<RooflinePoint>> migration_roofline(const trace::Trace& trace,
                                                      int64_t device_memory_bytes,
                                                      std::span<const int64_t> rates) {
  const int64_t least_bytes = planner::min_device_budget_bytes(trace, {});
  if (least_bytes > device_memory_bytes)
    return Status(ErrorCode::kOutOfMemory,
                  fmt::format("an op needs {} bytes at once, the device has {}: no bandwidth helps",
                              least_bytes, device_memory_bytes));
  std::vector<RooflinePoint> points(rates.size());
  parallel_for(rates.size(), kThreads, [&](size_t i) {
    points[i] = {rates[i], fraction_at(trace, device_memory_bytes, rates[i])};
  });
  return points;
}

Status write_characterizations(std::span<const CharacterizedTrace> traces,
                               const std::filesystem::path& path) {
  Json list = Json::array();
  for (const CharacterizedTrace& trace : traces) list.push_back(to_json(trace));
  return write_text_file(
      path, to_json_text({{"format", kCharacterizationFormat}, {"traces", std::move(list)}}));
}

}  // namespace teraio::analysis
