// The Python module teraio._units: parses and formats sizes and durations. It needs no PyTorch, so
// that `teraio run` refuses a wrong command line before it imports PyTorch.
#include <pybind11/pybind11.h>

#include <string>

#include "base/units.h"
#include "python_error.h"

namespace py = pybind11;

PYBIND11_MODULE(_units, module) {
  module.def(
      "parse_size",
      [](const std::string& text, int64_t whole_bytes) {
        return teraio::pytorch::value_or_raise(teraio::parse_size(text, whole_bytes));
      },
      py::arg("text"), py::arg("whole_bytes") = 0);
  module.def("format_size", &teraio::format_size, py::arg("size_bytes"));
  module.def("format_duration", &teraio::format_duration, py::arg("duration_ns"));
}
