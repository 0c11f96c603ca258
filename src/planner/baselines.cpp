#include "planner/baselines.h"

#include <algorithm>
#include <array>

#include "planner/algorithm1.h"
#include "planner/model_layers.h"
#include "planner/on_demand_paging.h"
#include "planner/selection.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

constexpr std::array<Baseline, 6> kAll = {Baseline::kOnDemandLru,     Baseline::kOnDemandFarthest,
                                          Baseline::kZeroOffload,     Baseline::kZeroInfinity,
                                          Baseline::kActivationsOnly, Baseline::kG10};

bool is_model_state(const trace::Tensor& tensor) {
  return tensor.kind == trace::TensorKind::kParameter ||
         tensor.kind == trace::TensorKind::kGradient ||
         tensor.kind == trace::TensorKind::kOptimizerState;
}

bool moves_with_layer(Baseline baseline, const trace::Tensor& tensor) {
  switch (baseline) {
    case Baseline::kZeroOffload:
      return is_model_state(tensor) && tensor.kind != trace::TensorKind::kParameter;
    case Baseline::kZeroInfinity:
      return is_model_state(tensor);
    case Baseline::kActivationsOnly:
      return !tensor.persistent && !is_model_state(tensor);
    default:
      return false;
  }
}

// Adds an offload after the layer of one use and a prefetch one layer ahead of the layer of the
// next use, unless the layers are too close for that.
void add_move(trace::TensorIndex tensor, int32_t from_layer, int32_t to_layer,
              const std::vector<trace::OpIndex>& starts, std::vector<ScheduledMigration>& moves) {
  const auto layer_count = static_cast<int32_t>(starts.size());
  if (to_layer - from_layer < 3) return;
  moves.push_back(
      {tensor, starts[(from_layer + 1) % layer_count], starts[(to_layer - 1) % layer_count]});
}

std::vector<ScheduledMigration> layer_moves(Baseline baseline, const trace::Trace& trace) {
  const trace::TraceIndex index(trace);
  const std::vector<int32_t> layers = layer_of_ops(trace);
  const std::vector<trace::OpIndex> starts = layer_starts(layers);
  const auto layer_count = static_cast<int32_t>(starts.size());
  std::vector<ScheduledMigration> moves;
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    const std::span<const trace::TensorUse> uses = index.uses[i];
    if (uses.empty() || !moves_with_layer(baseline, trace.tensors[i])) continue;
    const auto tensor = static_cast<trace::TensorIndex>(i);
    for (size_t use = 0; use + 1 < uses.size(); ++use)
      add_move(tensor, layers[uses[use].op], layers[uses[use + 1].op], starts, moves);
    if (trace.tensors[i].persistent)
      add_move(tensor, layers[uses.back().op], layers[uses.front().op] + layer_count, starts,
               moves);
  }
  return moves;
}

// Per op: the start of the layer before its own.
std::vector<trace::OpIndex> one_layer_ahead(const trace::Trace& trace) {
  const std::vector<int32_t> layers = layer_of_ops(trace);
  const std::vector<trace::OpIndex> starts = layer_starts(layers);
  std::vector<trace::OpIndex> ahead;
  for (int32_t layer : layers) ahead.push_back(starts[std::max(0, layer - 1)]);
  return ahead;
}

OnDemandOptions options_of(Baseline baseline, const trace::Trace& trace) {
  OnDemandOptions options;
  if (baseline == Baseline::kOnDemandLru)
    options.eviction_policy = EvictionPolicy::kLeastRecentlyUsed;
  if (baseline == Baseline::kZeroOffload) options.use_ssd = false;
  options.scheduled = layer_moves(baseline, trace);
  if (baseline == Baseline::kZeroInfinity) options.prefetch_ops = one_layer_ahead(trace);
  return options;
}

Result<plan::Plan> plan_g10(const trace::Trace& trace, const hardware::Hardware& hardware,
                            const plan::Limits& limits) {
  const trace::TraceIndex index(trace);
  const trace::Lifetimes lifetimes = lifetimes_of(index, limits.smallest_tensor_bytes);
  const Problem problem{trace, index, lifetimes, hardware, limits};
  Result<PlanBuilder> builder = build_by_algorithm1(problem);
  if (!builder.ok()) return builder.status();
  prefetch_early(*builder);
  return plan_of(*builder);
}

}  // namespace

std::span<const Baseline> all_baselines() { return kAll; }

std::string_view to_string(Baseline baseline) {
  switch (baseline) {
    case Baseline::kOnDemandLru:
      return "on demand, LRU";
    case Baseline::kOnDemandFarthest:
      return "on demand, farthest next use";
    case Baseline::kZeroOffload:
      return "ZeRO-Offload";
    case Baseline::kZeroInfinity:
      return "ZeRO-Infinity";
    case Baseline::kActivationsOnly:
      return "activations only (SSDTrain)";
    case Baseline::kG10:
      return "G10-like";
  }
  return "";
}

Result<plan::Plan> plan_baseline(Baseline baseline, const trace::Trace& trace,
                                 const hardware::Hardware& hardware, const plan::Limits& limits) {
  if (baseline == Baseline::kG10) return plan_g10(trace, hardware, limits);
  return plan_on_demand(trace, hardware, limits, options_of(baseline, trace));
}

}  // namespace teraio::planner
