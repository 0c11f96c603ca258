#include "trace/trace.h"

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

int64_t ideal_ns(const Trace& trace) {
  int64_t sum_ns = 0;
  for (const Op& op : trace.ops) sum_ns += op.duration_ns;
  return sum_ns;
}

}  // namespace teraio::trace
