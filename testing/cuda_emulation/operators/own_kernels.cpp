#include "testing/cuda_emulation/operators/own_kernels.h"

#include <unordered_map>
#include <vector>

namespace teraio::testing::emulated_cuda {
namespace {

using torch::jit::Stack;

bool is_given(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

void dropout(Stack& s, const at::Generator& generator) {
  const at::Tensor input = s[0].toTensor();
  const double p = s[1].toDouble();
  at::Tensor mask = at::empty(input.sizes(), input.options().dtype(at::kBool));
  if (!s[2].isNone() && !s[2].toBool()) {
    s = {input.clone(), mask.fill_(true)};
    return;
  }
  mask.bernoulli_(1 - p, generator);
  s = {input * mask * (p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

void rms_norm_backward(Stack& s, const at::Generator&) {
  const at::Tensor grad = s[0].toTensor().to(at::kFloat);
  const at::Tensor input = s[1].toTensor();
  const at::Tensor inverse_rms = s[3].toTensor().to(at::kFloat);
  const at::Tensor normal = input.to(at::kFloat) * inverse_rms;
  const at::Tensor scaled = is_given(s[4]) ? grad * s[4].toTensor() : grad;
  std::vector<int64_t> inner, outer;
  const int64_t first_inner = input.dim() - static_cast<int64_t>(s[2].toIntVector().size());
  for (int64_t i = 0; i < input.dim(); ++i) (i < first_inner ? outer : inner).push_back(i);
  const at::Tensor input_grad =
      inverse_rms * (scaled - normal * (scaled * normal).mean(inner, true));
  at::Tensor weight_grad;
  if (is_given(s[4])) {
    weight_grad = outer.empty() ? grad * normal : (grad * normal).sum(outer);
    weight_grad = weight_grad.to(s[4].toTensor().scalar_type());
  }
  s = {input_grad.to(input.scalar_type()), weight_grad};
}

void lstm_cell(Stack& s, const at::Generator&) {
  at::Tensor gates = s[0].toTensor() + s[1].toTensor();
  for (const size_t bias : {3, 4})
    if (is_given(s[bias])) gates = gates + s[bias].toTensor();
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid();
  const at::Tensor cell = parts[2].tanh(), out = parts[3].sigmoid();
  const at::Tensor state = forget * s[2].toTensor() + in * cell;
  s = {out * state.tanh(), state, at::cat({in, forget, cell, out}, 1)};
}

void lstm_cell_backward(Stack& s, const at::Generator&) {
  const at::Tensor state_before = s[2].toTensor();
  const auto gates = s[4].toTensor().chunk(4, 1);  // in, forget, cell, out
  const at::Tensor& in = gates[0];
  const at::Tensor& forget = gates[1];
  const at::Tensor& cell = gates[2];
  const at::Tensor& out = gates[3];
  const at::Tensor zeros = at::zeros_like(state_before);
  const at::Tensor hidden_grad = is_given(s[0]) ? s[0].toTensor() : zeros;
  const at::Tensor state = s[3].toTensor().tanh();
  const at::Tensor state_grad =
      (is_given(s[1]) ? s[1].toTensor() : zeros) + hidden_grad * out * (1 - state * state);
  const at::Tensor gate_grads =
      at::cat({state_grad * cell * in * (1 - in), state_grad * state_before * forget * (1 - forget),
               state_grad * in * (1 - cell * cell), hidden_grad * state * out * (1 - out)},
              1);
  s = {gate_grads, state_grad * forget, s[5].toBool() ? gate_grads.sum(0) : at::Tensor()};
}

}  // namespace

OwnKernel find_own_kernel(const std::string& name) {
  static const auto* kernels = new std::unordered_map<std::string, OwnKernel>{
      {"aten::native_dropout", &dropout},
      {"aten::_fused_rms_norm_backward", &rms_norm_backward},
      {"aten::_thnn_fused_lstm_cell", &lstm_cell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward},
      {"aten::_scaled_dot_product_efficient_attention", &attend},
      {"aten::_scaled_dot_product_efficient_attention_backward", &attend_backward}};
  const auto found = kernels->find(name);
  return found == kernels->end() ? nullptr : found->second;
}

}  // namespace teraio::testing::emulated_cuda
