#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "bindings/bindings.h"
#include "escapes/ddp_reducer.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// An AliasCheckScope that Python ends explicitly, because the collection of objects comes too late.
class ComparisonPeriod {
 public:
  explicit ComparisonPeriod(const std::vector<WeakStorage>& storages)
      : comparison_(compare_owners(storages)) {}
  void end() { comparison_.reset(); }

 private:
  std::unique_ptr<AliasCheckScope> comparison_;
};

std::vector<WeakStorage> storages_of(const std::vector<at::Tensor>& tensors) {
  std::vector<WeakStorage> storages;
  for (const at::Tensor& tensor : tensors)
    if (tensor.has_storage()) storages.push_back(tensor.storage().getWeakStorageImpl());
  return storages;
}

}  // namespace

void bind_ddp(py::module_& module) {
  using no_gil = py::call_guard<py::gil_scoped_release>;

  py::class_<ReducerHooks>(module, "ReducerHooks")
      .def(py::init<>())
      .def("expect_backward", &ReducerHooks::expect_backward, no_gil());

  py::class_<ComparisonPeriod>(module, "ComparisonPeriod")
      .def(py::init([](const c10d::Reducer& reducer) {
        const py::gil_scoped_release released;
        return std::make_unique<ComparisonPeriod>(compared_by(reducer));
      }))
      .def(py::init([](const std::vector<at::Tensor>& tensors) {
        const py::gil_scoped_release released;
        return std::make_unique<ComparisonPeriod>(storages_of(tensors));
      }))
      .def("end", &ComparisonPeriod::end, no_gil());
}

}  // namespace teraio::pytorch
