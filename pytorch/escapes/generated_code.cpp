#include "escapes/generated_code.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "escapes/opaque_op.h"
#include "storages/active_session.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// A function that generated code calls, and the op that a call is. It lives in a capsule, which is
// the `self` of the built-in function that stands in for `original`.
struct Function {
  struct TensorArgument {
    Py_ssize_t position = 0;
    bool is_write = false;
  };

  py::object original;
  const OpInfo& info;
  std::vector<TensorArgument> tensors;

  PyObject* call_original(PyObject* arguments, PyObject* keywords = nullptr) const {
    return PyObject_Call(original.ptr(), arguments, keywords);
  }
};

const Function& function_in(PyObject* capsule) {
  return *static_cast<const Function*>(PyCapsule_GetPointer(capsule, nullptr));
}

// Python finds a type by its methods only. A built-in function costs as little as the original.
py::object make_callable(std::unique_ptr<Function> function, PyMethodDef& definition) {
  const py::capsule capsule(function.get(),
                            [](void* owned) { delete static_cast<Function*>(owned); });
  (void)function.release();
  return py::reinterpret_steal<py::object>(PyCFunction_New(&definition, capsule.ptr()));
}

using Inputs = c10::SmallVector<OpaqueInput, 16>;

// Returns nothing when the arguments are not the kernel's, which then raises. They stay alive and
// in place as long as the tuple does.
std::optional<Inputs> inputs_of(const Function& kernel, PyObject* arguments) {
  Inputs inputs;
  for (const auto& [position, is_write] : kernel.tensors) {
    if (position >= PyTuple_GET_SIZE(arguments)) return std::nullopt;
    PyObject* argument = PyTuple_GET_ITEM(arguments, position);
    if (argument == Py_None) continue;
    if (!THPVariable_Check(argument)) return std::nullopt;
    inputs.push_back({&THPVariable_Unpack(argument), is_write});
  }
  return inputs;
}

PyObject* call_kernel(PyObject* self, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  const Function& kernel = function_in(self);
  if (active_session() == nullptr) return kernel.call_original(arguments, keywords);
  const std::optional<Inputs> inputs = inputs_of(kernel, arguments);
  if (!inputs) return kernel.call_original(arguments, keywords);
  std::optional<OpaqueOp> op;
  {
    const py::gil_scoped_release no_gil;
    op.emplace(kernel.info, *inputs);
  }
  PyObject* result = kernel.call_original(arguments, keywords);
  const py::gil_scoped_release no_gil;
  op.reset();
  return result;
  END_HANDLE_TH_ERRORS
}

using Sizes = c10::SmallVector<int64_t, 5>;

// Returns nothing when `object` is not a tuple of integers.
std::optional<Sizes> sizes_in(PyObject* object) {
  if (!PyTuple_Check(object)) return std::nullopt;
  Sizes sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!PyLong_Check(PyTuple_GET_ITEM(object, i))) return std::nullopt;
    sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(object, i)));
    if (sizes.back() == -1 && PyErr_Occurred() != nullptr) throw python_error();
  }
  return sizes;
}

struct Layout {
  Sizes sizes;
  Sizes strides;
  at::ScalarType dtype;
};

// Returns nothing when these are no arguments of empty_strided_*(), which then raises.
std::optional<Layout> layout_in(PyObject* arguments) {
  if (PyTuple_GET_SIZE(arguments) != 3) return std::nullopt;
  PyObject* dtype = PyTuple_GET_ITEM(arguments, 2);
  if (!THPDtype_Check(dtype)) return std::nullopt;
  std::optional<Sizes> sizes = sizes_in(PyTuple_GET_ITEM(arguments, 0));
  std::optional<Sizes> strides = sizes_in(PyTuple_GET_ITEM(arguments, 1));
  if (!sizes || !strides) return std::nullopt;
  return Layout{std::move(*sizes), std::move(*strides),
                reinterpret_cast<THPDtype*>(dtype)->scalar_type};
}

at::Tensor new_buffer(const Layout& layout, c10::DeviceType device) {
  if (device == c10::DeviceType::CPU)
    return at::Tensor(at::detail::empty_strided_cpu(layout.sizes, layout.strides, layout.dtype));
  return at::empty_strided(layout.sizes, layout.strides,
                           at::TensorOptions(device).dtype(layout.dtype));
}

// Does what the original does, which would wait for memory with the GIL.
at::Tensor allocate(const Layout& layout, c10::DeviceType device, const OpInfo& info) {
  const py::gil_scoped_release no_gil;
  OpaqueOp op(info, {});
  const at::Tensor buffer = new_buffer(layout, device);
  op.end({&buffer, 1});
  return buffer;
}

PyObject* call_empty_strided(PyObject* self, PyObject* arguments, c10::DeviceType device) {
  HANDLE_TH_ERRORS
  const Function& function = function_in(self);
  if (active_session() == nullptr) return function.call_original(arguments);
  const std::optional<Layout> layout = layout_in(arguments);
  if (!layout) return function.call_original(arguments);
  return THPVariable_Wrap(allocate(*layout, device, function.info));
  END_HANDLE_TH_ERRORS
}

PyObject* call_empty_strided_cpu(PyObject* self, PyObject* arguments) {
  return call_empty_strided(self, arguments, c10::DeviceType::CPU);
}

PyObject* call_empty_strided_cuda(PyObject* self, PyObject* arguments) {
  return call_empty_strided(self, arguments, c10::DeviceType::CUDA);
}

py::object observed_kernel(const std::string& name, py::object original,
                           const std::vector<Py_ssize_t>& read,
                           const std::vector<Py_ssize_t>& written) {
  // Python calls the function by the flags.
  static PyMethodDef definition = {
      "kernel", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_kernel)),
      METH_VARARGS | METH_KEYWORDS, nullptr};
  auto kernel = std::make_unique<Function>(
      Function{std::move(original), opaque_op_info("inductor::" + name), {}});
  for (const Py_ssize_t position : read) kernel->tensors.push_back({position, false});
  for (const Py_ssize_t position : written) kernel->tensors.push_back({position, true});
  std::sort(kernel->tensors.begin(), kernel->tensors.end(),
            [](const auto& a, const auto& b) { return a.position < b.position; });
  return make_callable(std::move(kernel), definition);
}

py::object observed_empty_strided(py::object original, bool is_cuda) {
  static PyMethodDef cpu = {"empty_strided_cpu", &call_empty_strided_cpu, METH_VARARGS, nullptr};
  static PyMethodDef cuda = {"empty_strided_cuda", &call_empty_strided_cuda, METH_VARARGS, nullptr};
  PyMethodDef& definition = is_cuda ? cuda : cpu;
  const OpInfo& info =
      opaque_op_info(std::string("inductor::") + definition.ml_name, /*completes_results=*/false);
  return make_callable(std::make_unique<Function>(Function{std::move(original), info, {}}),
                       definition);
}

}  // namespace

void bind_generated_code(py::module_& module) {
  using namespace py::literals;
  module.def("observed_kernel", &observed_kernel, "name"_a, "original"_a, "read"_a, "written"_a,
             "Returns a function that calls `original`, a generated kernel, as the op "
             "inductor::NAME. `read` and `written` are the positions of the tensors among the "
             "arguments that the kernel only reads, and of those that it writes.");
  module.def("observed_empty_strided", &observed_empty_strided, "original"_a, "is_cuda"_a,
             "Returns a function that does what `original`, Inductor's empty_strided_cpu() or "
             "empty_strided_cuda(), does, as the op inductor::empty_strided_cpu or _cuda.");
}

}  // namespace teraio::pytorch
