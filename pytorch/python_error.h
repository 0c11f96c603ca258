// The exception that the bindings raise for a failure: teraio.Error with the message of the Status,
// and its details in a verbose process.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace teraio::pytorch {

// Raises teraio.errors.Error unless `status` is ok. Needs the GIL.
inline void raise_unless_ok(const Status& status) {
  if (status.ok()) return;
  const pybind11::object error = pybind11::module_::import("teraio.errors").attr("Error");
  pybind11::set_error(error, full_text(status).c_str());
  throw pybind11::error_already_set();
}

// Returns the value of an ok result, and raises teraio.errors.Error otherwise. Needs the GIL.
template <typename T>
T value_or_raise(Result<T> result) {
  raise_unless_ok(result.status());
  return std::move(*result);
}

}  // namespace teraio::pytorch
