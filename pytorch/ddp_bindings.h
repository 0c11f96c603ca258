// The part of the module teraio._C for DistributedDataParallel.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace teraio::pytorch {

// Adds the classes ReducerHooks and ComparisonPeriod to `module`. Needs the GIL.
void bind_ddp(pybind11::module_& module);

}  // namespace teraio::pytorch
