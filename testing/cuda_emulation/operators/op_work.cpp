#include "testing/cuda_emulation/operators/op_work.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace teraio::testing::emulated_cuda {
namespace {

using torch::jit::Stack;
using Flops = double (*)(const Stack& arguments);

// The backward pass of attention has five products of the forward pass's two: it makes the scores
// once more.
constexpr double kAttentionBackwardShare = 2.5;

double length_of(const at::Tensor& tensor, int64_t dim) {
  return static_cast<double>(tensor.size(dim));
}

// (..., rows, inner) by (..., inner, columns).
double product_flops(const c10::IValue& left, const c10::IValue& right) {
  return 2 * static_cast<double>(left.toTensor().numel()) * length_of(right.toTensor(), -1);
}

// Two products of the scores' size; a causal kernel skips the half of them.
double attention_flops(const c10::IValue& query, const c10::IValue& key, bool is_causal) {
  const double scores =
      static_cast<double>(query.toTensor().numel()) * length_of(key.toTensor(), -2);
  return (is_causal ? 2 : 4) * scores;
}

double flops_of(const std::string& name, const Stack& s) {
  static const auto* formulas = new std::unordered_map<std::string, Flops>{
      {"aten::mm", [](const Stack& s) { return product_flops(s[0], s[1]); }},
      {"aten::bmm", [](const Stack& s) { return product_flops(s[0], s[1]); }},
      {"aten::addmm", [](const Stack& s) { return product_flops(s[1], s[2]); }},
      {"aten::baddbmm", [](const Stack& s) { return product_flops(s[1], s[2]); }},
      {"aten::_scaled_dot_product_efficient_attention",
       [](const Stack& s) { return attention_flops(s[0], s[1], s[6].toBool()); }},
      {"aten::_scaled_dot_product_efficient_attention_backward", [](const Stack& s) {
         return kAttentionBackwardShare * attention_flops(s[1], s[2], s[11].toBool());
       }}};
  const auto found = formulas->find(name);
  return found == formulas->end() ? 0 : found->second(s);
}

// Of its elements; what is expanded takes no memory.
double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return 0;
  double count = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.stride(dim) != 0) count *= length_of(tensor, dim);
  return count * static_cast<double>(tensor.element_size());
}

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  double bytes = 0;
  if (value.isList())
    for (const c10::IValue& element : value.toListRef()) bytes += bytes_of(element);
  return bytes;
}

// Whether the operator reads of its first argument, a table, only what an index names.
bool is_gathering(const std::string& name) {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::embedding", "aten::index_select", "aten::gather", "aten::index.Tensor"};
  return names->count(name) != 0;
}

// Whether the operator does not read what it writes.
bool is_filling(const std::string& name) {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::zero_",   "aten::fill_.Scalar", "aten::fill_.Tensor", "aten::copy_",
      "aten::normal_", "aten::uniform_",     "aten::random_",      "aten::bernoulli_.float"};
  return names->count(name) != 0;
}

}  // namespace

Work work_on_operands(const std::string& name, const Stack& arguments, const Operands& operands) {
  Work work = {flops_of(name, arguments), 0};
  for (size_t i = is_gathering(name) ? 1 : 0; i < arguments.size(); ++i)
    work.memory_bytes += bytes_of(arguments[i]);
  if (is_filling(name)) return work;  // what is written counts once, among the arguments
  for (const auto& [cpu, device] : operands.written()) work.memory_bytes += bytes_of(cpu);
  return work;
}

// An operator that gathers reads of its table as many bytes as it writes.
Work work_on_results(const std::string& name, const std::vector<std::vector<at::Tensor>>& results) {
  Work work;
  for (const auto& tensors : results)
    for (const at::Tensor& tensor : tensors) work.memory_bytes += bytes_of(tensor);
  if (is_gathering(name)) work.memory_bytes *= 2;
  return work;
}

}  // namespace teraio::testing::emulated_cuda
