// The part of the module teraio._C that dry runs use.
#pragma once

#include <pybind11/pybind11.h>

namespace teraio::pytorch {

void bind_dry_session(pybind11::module_& module);

}  // namespace teraio::pytorch
