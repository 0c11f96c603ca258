#include "replay/op_flops.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/captured_op.h"
#include "storages/fake_storage.h"

namespace teraio::pytorch {
namespace {

using Arguments = std::span<const c10::IValue>;
using Count = int64_t (*)(Arguments);

// The matrices are the arguments `first` and the one after it.
template <size_t first>
int64_t product(Arguments arguments) {
  return 2 * arguments[first].toTensor().numel() * arguments[first + 1].toTensor().size(-1);
}

// Query, key and value begin at the argument `first`; all have the dimensions (..., rows, columns).
template <size_t first, int passes>
int64_t attention(Arguments arguments) {
  const at::Tensor& query = arguments[first].toTensor();
  const at::Tensor& value = arguments[first + 2].toTensor();
  const int64_t rows = query.numel() / query.size(-1);
  return passes * 2 * rows * value.size(-2) * (query.size(-1) + value.size(-1));
}

int64_t positions(const at::Tensor& images) {
  return images.numel() / images.size(1);  // (batch, channels, ...)
}

// Each weight is used at each position of the result, or, if transposed, of the input.
int64_t convolution(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  if (arguments[6].toBool()) return 2 * positions(input) * weight.numel();
  const auto setting = [&](size_t argument, int64_t dimension) {
    const std::vector<int64_t> values = arguments[argument].toIntVector();
    return values[std::min<size_t>(static_cast<size_t>(dimension), values.size() - 1)];
  };
  int64_t results = input.size(0);
  for (int64_t i = 0; i < input.dim() - 2; ++i) {
    const int64_t reach = setting(5, i) * (weight.size(i + 2) - 1) + 1;
    results *= (input.size(i + 2) + 2 * setting(4, i) - reach) / setting(3, i) + 1;
  }
  return 2 * results * weight.numel();
}

int64_t convolution_backward(Arguments arguments) {
  const at::Tensor& used = arguments[arguments[7].toBool() ? 1 : 0].toTensor();
  const c10::List<bool> wanted = arguments[10].toBoolList();
  return (wanted[0] + wanted[1]) * 2 * positions(used) * arguments[2].toTensor().numel();
}

// Each weight is used at each position of the sequences.
template <int passes>
int64_t recurrent(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  int64_t weights = 0;
  for (const at::Tensor& tensor : tensors_in(arguments.subspan(1, 2)))
    if (tensor.defined() && tensor.dim() == 2) weights += tensor.numel();
  return passes * 2 * (input.numel() / input.size(-1)) * weights;
}

struct Kernel {
  Count count;
  at::Float32Op kind = at::Float32Op::MATMUL;
};

const std::unordered_map<std::string_view, Kernel>& kernels() {
  static const std::unordered_map<std::string_view, Kernel> kernels = {
      {"aten::mm", {product<0>}},
      {"aten::bmm", {product<0>}},
      {"aten::_scaled_mm", {product<0>}},
      {"aten::_grouped_mm", {product<0>}},
      {"aten::addmm", {product<1>}},
      {"aten::addmm_", {product<1>}},
      {"aten::_addmm_activation", {product<1>}},
      {"aten::baddbmm", {product<1>}},
      {"aten::baddbmm_", {product<1>}},
      {"aten::convolution", {convolution, at::Float32Op::CONV}},
      {"aten::convolution_backward", {convolution_backward, at::Float32Op::CONV}},
      {"aten::_scaled_dot_product_flash_attention", {attention<0, 1>}},
      {"aten::_scaled_dot_product_flash_attention_backward", {attention<1, 2>}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {attention<0, 1>}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {attention<1, 2>}},
      {"aten::_scaled_dot_product_efficient_attention", {attention<0, 1>}},
      {"aten::_scaled_dot_product_efficient_attention_backward", {attention<1, 2>}},
      {"aten::_scaled_dot_product_cudnn_attention", {attention<0, 1>}},
      {"aten::_scaled_dot_product_cudnn_attention_backward", {attention<1, 2>}},
      {"aten::mkldnn_rnn_layer", {recurrent<1>, at::Float32Op::RNN}},
      {"aten::mkldnn_rnn_layer_backward", {recurrent<2>, at::Float32Op::RNN}},
      {"aten::_cudnn_rnn", {recurrent<1>, at::Float32Op::RNN}},
      {"aten::_cudnn_rnn_backward", {recurrent<2>, at::Float32Op::RNN}},
  };
  return kernels;
}

// As accelerator files name it.
std::string precision_of(const at::Tensor& tensor, at::Float32Op kind) {
  constexpr auto kGpu = at::Float32Backend::CUDA;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return tensor.is_cuda() &&
                     at::globalContext().float32Precision(kGpu, kind) == at::Float32Precision::TF32
                 ? "tensorfloat32"
                 : "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    case at::kDouble:
      return "float64";
    default:
      return c10::isFloat8Type(tensor.scalar_type()) ? "float8"
                                                     : c10::toString(tensor.scalar_type());
  }
}

// Kernels work on other sizes than those of nested and sparse tensors. Sizes of 0 cannot divide.
bool has_no_flops(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  return is_wrapper(tensor) || tensor.is_nested() || tensor.layout() != at::kStrided ||
         tensor.numel() == 0;
}

}  // namespace

void add_flops(std::string_view name, std::span<const c10::IValue> arguments,
               iteration::FlopsByPrecision& flops) {
  const auto kernel = kernels().find(name.substr(0, name.find('.')));
  if (kernel == kernels().end()) return;
  const std::vector<at::Tensor> tensors = tensors_in(arguments);
  if (tensors.empty() || std::any_of(tensors.begin(), tensors.end(), has_no_flops)) return;
  const auto& [count, kind] = kernel->second;
  flops[precision_of(tensors.front(), kind)] += count(arguments);
}

}  // namespace teraio::pytorch
