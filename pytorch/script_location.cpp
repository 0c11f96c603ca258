#include "script_location.h"

#include <pybind11/pybind11.h>

#include "interrupts.h"

namespace py = pybind11;

namespace teraio::pytorch {

std::string script_location() {
  if (Py_IsInitialized() == 0) return {};
  const py::gil_scoped_acquire gil;
  const py::error_scope error_in_flight;
  try {
    return py::module_::import("teraio.hooks.source_location")
        .attr("described_script_location")()
        .cast<std::string>();
  } catch (const py::error_already_set& error) {
    raise_after_op(error);
    return {};
  }
}

}  // namespace teraio::pytorch
