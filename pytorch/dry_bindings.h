// The part of the module teraio._C that dry runs use.
#pragma once

#include <pybind11/pybind11.h>

#include "base/status.h"

namespace teraio::pytorch {

// `check` raises teraio.Error for a failure.
void bind_dry_session(pybind11::module_& module, void (*check)(const Status&));

}  // namespace teraio::pytorch
