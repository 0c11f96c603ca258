#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "bindings/bindings.h"
#include "escapes/opaque_op.h"
#include "observe/collective.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// `written` holds the indices of the inputs that the code changes.
std::unique_ptr<OpaqueOp> begin_opaque_op(const std::string& name,
                                          const std::vector<at::Tensor>& inputs,
                                          const std::vector<size_t>& written) {
  std::vector<OpaqueInput> named;
  for (const at::Tensor& input : inputs) named.push_back({&input, false});
  for (const size_t i : written) named.at(i).is_write = true;
  return std::make_unique<OpaqueOp>(opaque_op_info(name), named);
}

void end_coalescing_of_python(c10d::Work* work) {
  const py::gil_scoped_release released;
  end_coalescing(work == nullptr ? c10::intrusive_ptr<c10d::Work>()
                                 : c10::intrusive_ptr<c10d::Work>::reclaim_copy(work));
}

}  // namespace

void bind_opaque_ops(py::module_& module) {
  using no_gil = py::call_guard<py::gil_scoped_release>;
  py::class_<OpaqueOp>(module, "OpaqueOp")
      .def(py::init(&begin_opaque_op), no_gil())
      .def(
          "end", [](OpaqueOp& op, const std::vector<at::Tensor>& results) { op.end(results); },
          no_gil());
  py::class_<CallbackOps>(module, "CallbackOps")
      .def(py::init<>())
      .def("end", &CallbackOps::end, no_gil());
  module.def("begin_coalescing", &begin_coalescing,
             "This thread's collectives start only at the end of a group.");
  module.def("end_coalescing", &end_coalescing_of_python,
             "Ends the group, of which the Work is given, or None.");
  module.def("fail_coalescing", &fail_coalescing, no_gil(), "Ends a group that has failed.");
}

}  // namespace teraio::pytorch
