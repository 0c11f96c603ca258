#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/python_storage.h"
#include "escapes/child_copies.h"
#include "escapes/pin.h"
#include "observe/op_pins.h"
#include "storages/active_session.h"
#include "storages/captured_storages.h"
#include "storages/forked_child.h"
#include "storages/tensor_handle.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// Pins the tensor until the op ends that this thread runs. Returns false when it runs none, or no
// session manages the tensor.
bool pin_until_op_ends(const py::object& tensor) {
  const SessionUse use;
  ActiveSession* session = use.get();
  c10::StorageImpl* storage = storage_of(tensor);
  TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage);
  if (session == nullptr || session->is_dry || handle == nullptr || is_forked_child()) return false;
  return without_gil([&] { return pin_until_op_ends(*session, handle->tensor); });
}

trace::TensorKind kind_of(const std::string& name) {
  for (const trace::TensorKind kind :
       {trace::TensorKind::kParameter, trace::TensorKind::kGradient,
        trace::TensorKind::kOptimizerState, trace::TensorKind::kActivation,
        trace::TensorKind::kInput, trace::TensorKind::kWorkspace})
    if (to_string(kind) == name) return kind;
  return trace::TensorKind::kOther;
}

void describe(const at::Tensor& tensor, const std::string& kind, const std::string& name) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage))
    without_gil([&] { handle->runtime->describe(handle->tensor, kind_of(kind), name); });
}

}  // namespace

void bind_pins(py::module_& module) {
  using namespace py::literals;
  py::class_<Pin>(module, "Pin")
      .def(py::init([](const py::object& tensor, bool adopts) {
             return std::make_unique<Pin>(storage_of(tensor), adopts);
           }),
           "tensor"_a, "adopts"_a = false)
      .def("release", &Pin::release);
  module.def(
      "pin_address", [](const py::object& tensor) { return pin_address(storage_of(tensor)); },
      "Restores a tensor and pins it permanently, because code outside knows its address. "
      "Returns False if no session manages it.");
  module.def("pin_until_op_ends", py::overload_cast<const py::object&>(&pin_until_op_ends),
             "Restores a tensor and pins it until the op ends that this thread runs, because the "
             "op's kernel knows its address. Returns False if it runs none, or no session manages "
             "the tensor.");
  module.def(
      "keep_in_place", [](const py::object& storage) { return keep_in_place(storage_of(storage)); },
      "Keeps a storage of before the session where it is. Returns its bytes, or 0 if the session "
      "would not move it or counts it already.");
  module.def(
      "note_captures", [](bool is_begin) { captures_outside_of_sessions += is_begin ? 1 : -1; },
      "Begins or ends a capture: what observed ops use outside of sessions is noted.");
  module.def(
      "bytes_version",
      [](const py::object& tensor) {
        c10::StorageImpl* storage = storage_of(tensor);
        return storage == nullptr ? std::nullopt : bytes_version(*storage);
      },
      "Returns what differs for two storages and when the bytes change, or None where a forked "
      "child finds the bytes in the memory that it inherits.");
  module.def(
      "write_copy",
      [](const py::object& tensor, int fd, int64_t offset_bytes) {
        write_copy(*storage_of(tensor), fd, offset_bytes);
      },
      "Writes the bytes of a tensor with a version to a file, for children.");
  module.def(
      "use_copy",
      [](const py::object& tensor, int fd, int64_t offset_bytes) {
        use_copy(*storage_of(tensor), fd, offset_bytes);
      },
      "In a forked child: the tensor's bytes are those in the file from now on.");
  module.def("describe", &describe, "Sets the kind and the name of a tensor for the trace.");
}

}  // namespace teraio::pytorch
