#include "storages/inner_tensors.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "storages/fake_storage.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// The depth up to which containers are searched. Containers may contain each other.
constexpr int kDeepest = 8;

void add_held(py::handle value, int depth, std::vector<at::Tensor>& found);

// Adds the tensors of a wrapper: those that it names for torch.compile, or else its attributes.
void add_wrapped(py::handle wrapper, int depth, std::vector<at::Tensor>& found) {
  if (py::hasattr(wrapper, "__tensor_flatten__")) {
    const py::tuple parts = wrapper.attr("__tensor_flatten__")();
    for (const py::handle name : py::list(parts[0])) add_held(wrapper.attr(name), depth, found);
    return;
  }
  const auto attributes =
      py::reinterpret_steal<py::object>(PyObject_GenericGetDict(wrapper.ptr(), nullptr));
  if (!attributes) throw py::error_already_set();
  add_held(attributes, depth, found);
}

void add_held(py::handle value, int depth, std::vector<at::Tensor>& found) {
  if (depth == kDeepest) return;
  if (THPVariable_Check(value.ptr())) {
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    if (is_wrapper(tensor)) return add_wrapped(value, depth + 1, found);
    found.push_back(tensor);
  } else if (PyDict_Check(value.ptr())) {
    for (const auto& [key, held] : py::reinterpret_borrow<py::dict>(value))
      add_held(held, depth + 1, found);
  } else if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
    for (const py::handle held : py::reinterpret_borrow<py::sequence>(value))
      add_held(held, depth + 1, found);
  }
}

// "module.name" of the tensor's class in Python.
std::string class_of(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  const py::handle type = py::type::handle_of(object);
  return py::str("{}.{}").format(type.attr("__module__"), type.attr("__qualname__"));
}

}  // namespace

bool passes_all_on(const at::Tensor& wrapper) {
  const std::string name = class_of(wrapper);
  return name == "torch.distributed.tensor.DTensor" ||
         name == "torch.distributed._functional_collectives.AsyncCollectiveTensor";
}

// The implementation class decides, because a wrapper around a sparse tensor reports a sparse
// layout.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (const auto* sparse = dynamic_cast<const at::SparseTensorImpl*>(impl))
    return {sparse->indices(), sparse->values()};
  if (const auto* compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(impl))
    return {compressed->compressed_indices(), compressed->plain_indices(), compressed->values()};
  if (impl->is_python_dispatch()) {
    std::vector<at::Tensor> found;
    if (!is_wrapper(tensor)) return found;
    const py::gil_scoped_acquire gil;
    add_wrapped(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)), 0, found);
    return found;
  }
  if (!impl->is_quantized()) return {};
  auto* quantized = dynamic_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
  if (quantized == nullptr) return {};
  const auto* by_channel =
      dynamic_cast<const at::PerChannelAffineQuantizer*>(quantized->quantizer().get());
  if (by_channel == nullptr) return {};
  return {by_channel->scales(), by_channel->zero_points()};
}

}  // namespace teraio::pytorch
