// The Python bindings for DistributedDataParallel.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace teraio::pytorch {

void bind_ddp(pybind11::module_& module);

}  // namespace teraio::pytorch
