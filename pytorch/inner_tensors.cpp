#include "inner_tensors.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "fake_storage.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// Of a wrapper that tells them, as torch.compile asks it to.
void add_wrapped(const at::Tensor& tensor, std::vector<at::Tensor>& found) {
  const py::gil_scoped_acquire gil;
  const auto wrapper = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  if (!py::hasattr(wrapper, "__tensor_flatten__")) return;
  const py::tuple parts = wrapper.attr("__tensor_flatten__")();
  for (const py::handle name : py::list(parts[0])) {
    const py::object part = wrapper.attr(name);
    if (!THPVariable_Check(part.ptr())) continue;
    const at::Tensor& inner = THPVariable_Unpack(part.ptr());
    if (is_wrapper(inner)) {
      add_wrapped(inner, found);
    } else {
      found.push_back(inner);
    }
  }
}

}  // namespace

// By their classes: a wrapper around a sparse tensor says that it is sparse too.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->is_python_dispatch()) {
    std::vector<at::Tensor> found;
    if (is_wrapper(tensor)) add_wrapped(tensor, found);
    return found;
  }
  if (const auto* sparse = dynamic_cast<const at::SparseTensorImpl*>(impl))
    return {sparse->indices(), sparse->values()};
  if (const auto* compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(impl))
    return {compressed->compressed_indices(), compressed->plain_indices(), compressed->values()};
  if (!impl->is_quantized()) return {};
  auto* quantized = dynamic_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
  if (quantized == nullptr) return {};
  const auto* by_channel =
      dynamic_cast<const at::PerChannelAffineQuantizer*>(quantized->quantizer().get());
  if (by_channel == nullptr) return {};
  return {by_channel->scales(), by_channel->zero_points()};
}

}  // namespace teraio::pytorch
