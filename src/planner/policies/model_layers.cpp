#include "planner/policies/model_layers.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace teraio::planner {
namespace {

// The part of a name that identifies its layer: "l7" of "l7.mlp", "layers.7" of
// "layers.7.attention.wq"; empty when no dot follows a digit.
std::string_view label_of(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    if (dot > 0 && std::isdigit(static_cast<unsigned char>(name[dot - 1])))
      return name.substr(0, dot);
  return {};
}

std::string_view label_of(const trace::Trace& trace, const trace::Op& op) {
  if (const std::string_view label = label_of(op.name); !label.empty()) return label;
  for (const std::vector<trace::TensorIndex>* tensors : {&op.reads, &op.writes})
    for (trace::TensorIndex tensor : *tensors)
      if (trace.tensors[tensor].kind == trace::TensorKind::kParameter)
        if (const std::string_view label = label_of(trace.tensors[tensor].name); !label.empty())
          return label;
  return {};
}

std::vector<int32_t> by_name(const trace::Trace& trace) {
  std::vector<int32_t> layers;
  std::string_view current;
  int32_t layer = 0;
  for (const trace::Op& op : trace.ops) {
    const std::string_view label = label_of(trace, op);
    if (!label.empty() && label != current) {
      layer += current.empty() ? 0 : 1;
      current = label;
    }
    layers.push_back(layer);
  }
  return layers;
}

bool uses_parameter(const trace::Trace& trace, const trace::Op& op) {
  const auto is_parameter = [&trace](trace::TensorIndex tensor) {
    return trace.tensors[tensor].kind == trace::TensorKind::kParameter;
  };
  return std::any_of(op.reads.begin(), op.reads.end(), is_parameter) ||
         std::any_of(op.writes.begin(), op.writes.end(), is_parameter);
}

std::vector<int32_t> by_parameters(const trace::Trace& trace) {
  const int64_t total_ns = ideal_ns(trace);
  std::vector<int32_t> layers;
  int64_t layer_ns = 0;
  int32_t layer = 0;
  for (const trace::Op& op : trace.ops) {
    if (layer_ns > total_ns / 256 && uses_parameter(trace, op)) {
      ++layer;
      layer_ns = 0;
    }
    layer_ns += op.duration_ns;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

std::vector<int32_t> layer_of_ops(const trace::Trace& trace) {
  std::vector<int32_t> layers = by_name(trace);
  const bool told = !layers.empty() && layers.back() > 0;
  return told ? layers : by_parameters(trace);
}

std::vector<trace::OpIndex> layer_starts(const std::vector<int32_t>& layer_of_op) {
  std::vector<trace::OpIndex> starts;
  for (size_t k = 0; k < layer_of_op.size(); ++k)
    if (k == 0 || layer_of_op[k] != layer_of_op[k - 1])
      starts.push_back(static_cast<trace::OpIndex>(k));
  return starts;
}

}  // namespace teraio::planner
