// The part of the module teraio._C that dry runs use.
#pragma once

#include <pybind11/pybind11.h>

namespace teraio::pytorch {

// Adds the class DrySession and the functions that a dry run needs to `module`. Needs the GIL.
void bind_dry_session(pybind11::module_& module);

}  // namespace teraio::pytorch
