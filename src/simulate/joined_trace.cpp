#include "simulate/joined_trace.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace teraio::simulate {
namespace {

using trace::OpIndex;
using trace::TensorIndex;

// What a persistent tensor is known by in all patterns. Tensors of one trace that have the same
// name and size are numbered.
using Identity = std::tuple<std::string, int64_t, int64_t>;  // name, size, number or id

std::map<Identity, TensorIndex> persistent_tensors(const trace::Trace& trace) {
  std::map<Identity, TensorIndex> found;
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    const trace::Tensor& tensor = trace.tensors[i];
    if (!tensor.persistent) continue;
    Identity identity{tensor.name, tensor.size_bytes, tensor.name.empty() ? tensor.id : 0};
    while (!found.emplace(identity, static_cast<TensorIndex>(i)).second) ++std::get<2>(identity);
  }
  return found;
}

class TraceJoiner {
 public:
  JoinedTrace run(std::span<const trace::Trace* const> traces) {
    for (const trace::Trace* trace : traces) add_persistent_tensors(*trace);
    joined_.persistent_count = joined_.trace.tensors.size();
    for (size_t s = 0; s < traces.size(); ++s) {
      add_other_tensors(*traces[s], joined_.tensors[s]);
      add_ops(*traces[s], joined_.tensors[s]);
    }
    joined_.first_op.push_back(static_cast<OpIndex>(joined_.trace.ops.size()));
    return std::move(joined_);
  }

 private:
  TensorIndex add(const trace::Tensor& tensor) {
    const auto index = static_cast<TensorIndex>(joined_.trace.tensors.size());
    joined_.trace.tensors.push_back(tensor);
    joined_.trace.tensors.back().id = index;
    return index;
  }

  void add_persistent_tensors(const trace::Trace& trace) {
    std::vector<TensorIndex>& tensors = joined_.tensors.emplace_back(trace.tensors.size());
    for (const auto& [identity, index] : persistent_tensors(trace)) {
      const auto [known, is_new] = known_.try_emplace(identity, 0);
      if (is_new) known->second = add(trace.tensors[index]);
      tensors[index] = known->second;
    }
  }

  void add_other_tensors(const trace::Trace& trace, std::vector<TensorIndex>& tensors) {
    for (size_t i = 0; i < trace.tensors.size(); ++i)
      if (!trace.tensors[i].persistent) tensors[i] = add(trace.tensors[i]);
  }

  void add_ops(const trace::Trace& trace, const std::vector<TensorIndex>& tensors) {
    joined_.first_op.push_back(static_cast<OpIndex>(joined_.trace.ops.size()));
    for (const trace::Op& op : trace.ops) {
      trace::Op& added = joined_.trace.ops.emplace_back(op);
      for (std::vector<TensorIndex>* list : {&added.reads, &added.writes, &added.frees})
        for (TensorIndex& tensor : *list) tensor = tensors[tensor];
    }
  }

  JoinedTrace joined_;
  std::map<Identity, TensorIndex> known_;
};

}  // namespace

JoinedTrace join_traces(std::span<const trace::Trace* const> traces) {
  return TraceJoiner().run(traces);
}

bool share_tensors(const trace::Trace& a, const trace::Trace& b) {
  const std::map<Identity, TensorIndex> known = persistent_tensors(a);
  const std::map<Identity, TensorIndex> others = persistent_tensors(b);
  return std::ranges::any_of(others,
                             [&](const auto& other) { return known.contains(other.first); });
}

}  // namespace teraio::simulate
