#include "bindings/bindings.h"
#include "observe/observed_thread.h"
#include "observe/python_threads.h"
#include "op_info.h"

namespace py = pybind11;

namespace teraio::pytorch {

void bind_observer(py::module_& module) {
  module.def("observe_this_thread", &observe_this_thread);
  module.def("observe_python_threads", &observe_python_threads);
  module.def("threads_in_unfinished_ops", &threads_in_unfinished_ops);
  module.def("forget_python_threads", &forget_python_threads);
  module.def("is_this_thread_observed", &is_this_thread_observed);
  module.def("note_python_kernel", &note_python_kernel,
             "The operator of this name has a kernel in Python from now on.");
  module.def("observer_dispatch_key", &observer_dispatch_key);
}

}  // namespace teraio::pytorch
