#include "testing/cuda_emulation/operators/results.h"

#include <ATen/cuda/EmptyTensor.h>

#include "testing/cuda_emulation/operators/cpu_call.h"
#include "testing/cuda_emulation/operators/operands.h"

namespace teraio::testing::emulated_cuda {
namespace {

TensorShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  TensorShape shape{true, tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
  if (!tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense()) {
    const auto strides = c10::contiguous_strides(tensor.sizes());
    shape.strides.assign(strides.begin(), strides.end());
  }
  return shape;
}

at::Tensor make_tensor_on_device(const TensorShape& shape, c10::Device device) {
  if (!shape.is_defined) return {};
  return at::Tensor(at::detail::empty_strided_cuda(shape.sizes, shape.strides, shape.type, device));
}

std::vector<at::Tensor> tensors_of(const c10::IValue& result) {
  if (result.isTensor()) return {result.toTensor()};
  return result.isTensorList() ? result.toTensorVector() : std::vector<at::Tensor>();
}

void store_tensor(const at::Tensor& found, at::Tensor target, const char* name) {
  if (!target.defined()) return;
  TORCH_CHECK(found.defined() && found.sizes() == target.sizes() &&
                  found.scalar_type() == target.scalar_type(),
              name, ": a result of another shape than for the first such arguments");
  if (target.numel() > 0) target.copy_(found);
}

}  // namespace

std::vector<ResultShape> shapes_of(const OpFacts& facts, const torch::jit::Stack& results) {
  std::vector<ResultShape> shapes(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (facts.argument_of_result[i] >= 0) continue;
    for (const at::Tensor& tensor : tensors_of(results[i]))
      shapes[i].tensors.push_back(shape_of(tensor));
    shapes[i].is_list = results[i].isTensorList();
  }
  return shapes;
}

DeviceResults make_results(const OpFacts& facts, const torch::jit::Stack& arguments,
                           const std::vector<ResultShape>& shapes, c10::Device device) {
  DeviceResults results;
  results.on_cpu.resize(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (facts.argument_of_result[i] >= 0) {
      results.values.push_back(arguments[static_cast<size_t>(facts.argument_of_result[i])]);
      continue;
    }
    c10::List<at::Tensor> list;
    for (const TensorShape& shape : shapes[i].tensors) {
      list.push_back(make_tensor_on_device(shape, device));
      results.on_cpu[i].push_back(on_cpu(list.get(list.size() - 1)));
    }
    if (shapes[i].is_list)
      results.values.emplace_back(list);
    else
      results.values.push_back(list.empty() ? c10::IValue() : c10::IValue(list.get(0)));
  }
  return results;
}

void store_results(const std::vector<std::vector<at::Tensor>>& targets,
                   const torch::jit::Stack& results, const char* name) {
  const BelowAutograd below;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].empty()) continue;
    const std::vector<at::Tensor> found = tensors_of(results[i]);
    TORCH_CHECK(found.size() == targets[i].size(), name, ": another number of results than before");
    for (size_t j = 0; j < found.size(); ++j) store_tensor(found[j], targets[i][j], name);
  }
}

}  // namespace teraio::testing::emulated_cuda
