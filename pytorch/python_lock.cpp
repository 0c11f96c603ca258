#include "python_lock.h"

#include <pybind11/pybind11.h>

namespace teraio::pytorch {

bool wait_without_python_lock(const std::function<void()>& wait) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return false;
  const pybind11::gil_scoped_release no_gil;
  wait();
  return true;
}

}  // namespace teraio::pytorch
