#include <string>

#include "bindings/bindings.h"
#include "device/system_memory.h"
#include "storages/device_backend.h"

namespace py = pybind11;

namespace teraio::pytorch {

void bind_devices(py::module_& module) {
  module.def("default_budget_bytes", [](const std::string& device) {
    return value_or_raise(value_or_raise(find_backend(device))->default_budget_bytes());
  });
  module.def(
      "available_memory_bytes", [] { return device::available_memory_bytes("/"); },
      "The host memory that this process can still take, within its control groups.");
  module.def("device_memory_bytes", [](const std::string& device) {
    return value_or_raise(value_or_raise(find_backend(device))->memory_bytes());
  });
}

}  // namespace teraio::pytorch
