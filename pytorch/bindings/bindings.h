// The parts of the Python module teraio._C, each in a file of its own, and what they share.
#pragma once

#include <pybind11/pybind11.h>

#include "base/status.h"
#include "interrupts.h"
#include "python_error.h"

namespace teraio::pytorch {

// Each adds classes and functions to `module`. They need the GIL.
void bind_session(pybind11::module_& module);
void bind_pins(pybind11::module_& module);
void bind_opaque_ops(pybind11::module_& module);
void bind_observer(pybind11::module_& module);
void bind_devices(pybind11::module_& module);
void bind_dry_session(pybind11::module_& module);
void bind_ddp(pybind11::module_& module);

// Whatever takes the runtime's lock or waits is called without the GIL: a thread that holds the
// lock may need the GIL before it lets go, in the device's allocator for example.
template <typename Call>
auto without_gil(Call call) {
  const pybind11::gil_scoped_release no_gil;
  return call();
}

// Raises for a call that a handler of signals may have ended. Needs the GIL.
inline void raise_unless_done(const Status& status) {
  if (status.code() == ErrorCode::kInterrupted) throw_interrupt(status);
  raise_unless_ok(status);
}

}  // namespace teraio::pytorch
