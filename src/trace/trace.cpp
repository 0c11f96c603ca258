#include "trace/trace.h"

#include <algorithm>

namespace teraio::trace {

std::string_view to_string(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kGradient:
      return "gradient";
    case TensorKind::kOptimizerState:
      return "optimizer_state";
    case TensorKind::kActivation:
      return "activation";
    case TensorKind::kInput:
      return "input";
    case TensorKind::kWorkspace:
      return "workspace";
    case TensorKind::kOther:
      return "other";
  }
  return "other";
}

Trace with_repeatable_ids(Trace trace) {
  int64_t last_id = 0;
  for (const Tensor& tensor : trace.tensors)
    if (tensor.persistent) last_id = std::max(last_id, tensor.id);
  for (size_t i = 0; i < trace.tensors.size(); ++i)
    if (!trace.tensors[i].persistent) trace.tensors[i].id = last_id + 1 + static_cast<int64_t>(i);
  return trace;
}

int64_t ideal_ns(const Trace& trace) {
  int64_t sum_ns = 0;
  for (const Op& op : trace.ops) sum_ns += op.duration_ns;
  return sum_ns;
}

}  // namespace teraio::trace
