#include "planner/policies/baselines.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "planner/on_demand_paging.h"
#include "planner/policies/algorithm1.h"
#include "planner/policies/model_layers.h"
#include "planner/selection.h"
#include "simulate/simulator.h"
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

// The tensors that the policy moves at all. Empty: every tensor.
std::vector<bool> movable(Baseline baseline, const trace::Trace& trace) {
  std::vector<bool> movable;
  if (baseline == Baseline::kZeroOffload || baseline == Baseline::kActivationsOnly)
    for (const trace::Tensor& tensor : trace.tensors)
      movable.push_back(moves_with_layer(baseline, tensor));
  return movable;
}

std::vector<bool> parameters(const trace::Trace& trace) {
  std::vector<bool> are;
  for (const trace::Tensor& tensor : trace.tensors)
    are.push_back(tensor.kind == trace::TensorKind::kParameter);
  return are;
}

struct Layers {
  std::vector<int32_t> of_op;
  std::vector<trace::OpIndex> starts;
  int32_t ahead = 1;  // how many layers before its own a tensor is prefetched
};

// Adds an offload after the layer of one use and a prefetch ahead of the layer of the next use,
// unless the layers are too close for that.
void add_move(trace::TensorIndex tensor, int32_t from_layer, int32_t to_layer, const Layers& layers,
              std::vector<ScheduledMigration>& moves) {
  const auto layer_count = static_cast<int32_t>(layers.starts.size());
  if (to_layer - from_layer < layers.ahead + 2) return;
  moves.push_back({tensor, layers.starts[(from_layer + 1) % layer_count],
                   layers.starts[(to_layer - layers.ahead) % layer_count]});
}

std::vector<ScheduledMigration> layer_moves(Baseline baseline, const trace::Trace& trace,
                                            const Layers& layers) {
  const trace::TraceIndex index(trace);
  const auto layer_count = static_cast<int32_t>(layers.starts.size());
  std::vector<ScheduledMigration> moves;
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    const std::span<const trace::TensorUse> uses = index.uses[i];
    if (uses.empty() || !moves_with_layer(baseline, trace.tensors[i])) continue;
    const auto tensor = static_cast<trace::TensorIndex>(i);
    for (size_t use = 0; use + 1 < uses.size(); ++use)
      add_move(tensor, layers.of_op[uses[use].op], layers.of_op[uses[use + 1].op], layers, moves);
    if (trace.tensors[i].persistent)
      add_move(tensor, layers.of_op[uses.back().op], layers.of_op[uses.front().op] + layer_count,
               layers, moves);
  }
  return moves;
}

// Per op: the start of the layer that is `layers.ahead` before its own.
std::vector<trace::OpIndex> ops_ahead(const Layers& layers) {
  std::vector<trace::OpIndex> ahead;
  for (int32_t layer : layers.of_op)
    ahead.push_back(layers.starts[std::max(0, layer - layers.ahead)]);
  return ahead;
}

OnDemandOptions options_of(Baseline baseline, const trace::Trace& trace, const Layers& layers,
                           bool keeps_host_copies) {
  OnDemandOptions options;
  options.may_move = movable(baseline, trace);
  if (baseline == Baseline::kOnDemandLru)
    options.eviction_policy = EvictionPolicy::kLeastRecentlyUsed;
  if (baseline == Baseline::kZeroOffload) options.use_ssd = false;
  options.scheduled = layer_moves(baseline, trace, layers);
  if (baseline == Baseline::kZeroInfinity) {
    options.prefetch_ops = ops_ahead(layers);
    if (keeps_host_copies) options.keeps_host_copy = parameters(trace);
  }
  return options;
}

// What users of the ZeRO systems tune.
struct Tuning {
  int32_t layers_ahead = 1;
  bool keeps_host_copies = false;  // of clean parameters; takes room from other tensors
};

std::vector<Tuning> tunings(Baseline baseline) {
  if (baseline == Baseline::kZeroOffload) return {{1}, {2}, {4}};
  if (baseline != Baseline::kZeroInfinity) return {{}};
  return {{1, false}, {2, false}, {4, false}, {1, true}, {2, true}, {4, true}};
}

// Returns the plan with the tuning that makes the fastest step.
Result<plan::Plan> plan_by_layers(Baseline baseline, const trace::Trace& trace,
                                  const hardware::Hardware& hardware, const plan::Limits& limits) {
  Layers layers;
  layers.of_op = layer_of_ops(trace);
  layers.starts = layer_starts(layers.of_op);
  const std::vector<Tuning> tried = tunings(baseline);
  std::optional<plan::Plan> best;
  int64_t best_ns = 0;
  Status failure;
  for (const Tuning& tuning : tried) {
    layers.ahead = tuning.layers_ahead;
    Result<plan::Plan> made = plan_on_demand(
        trace, hardware, limits, options_of(baseline, trace, layers, tuning.keeps_host_copies));
    if (tried.size() == 1) return made;
    const Result<simulate::Run> run =
        made.ok() ? simulate::simulate(trace, hardware, limits, *made) : made.status();
    if (!run.ok()) {
      if (failure.ok()) failure = run.status();
      continue;
    }
    if (best && run->step_ns >= best_ns) continue;
    best_ns = run->step_ns;
    best = std::move(*made);
  }
  if (!best) return failure;
  return std::move(*best);
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
      return "on-demand-lru";
    case Baseline::kOnDemandFarthest:
      return "on-demand";
    case Baseline::kZeroOffload:
      return "zero-offload";
    case Baseline::kZeroInfinity:
      return "zero-infinity";
    case Baseline::kActivationsOnly:
      return "activations-only";
    case Baseline::kG10:
      return "g10";
  }
  return "";
}

Result<plan::Plan> plan_baseline(Baseline baseline, const trace::Trace& trace,
                                 const hardware::Hardware& hardware, const plan::Limits& limits) {
  if (baseline == Baseline::kG10) return plan_g10(trace, hardware, limits);
  return plan_by_layers(baseline, trace, hardware, limits);
}

}  // namespace teraio::planner
