// The Python module teraio._C: converts arguments and results, and forwards to the session.
#include "bindings/bindings.h"

#include <torch/csrc/Exceptions.h>

#include <exception>

#include "base/log.h"
#include "escapes/c_functions.h"
#include "escapes/generated_code.h"
#include "escapes/living_objects.h"

namespace py = pybind11;

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace teraio;
  using namespace teraio::pytorch;

  log_to_stderr();  // stdout belongs to the program
  module.def("set_verbose", &set_verbose, py::arg("is_verbose"));
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (python_error& raised) {
      raised.restore();
    }
  });
  bind_session(module);
  bind_pins(module);
  bind_opaque_ops(module);
  bind_observer(module);
  bind_devices(module);
  bind_dry_session(module);
  bind_ddp(module);
  bind_generated_code(module);
  bind_living_objects(module);
  bind_c_functions(module);
}
