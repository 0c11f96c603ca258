// How a failure of the runtime reaches the program that runs an op.
#pragma once

#include <string_view>

#include "base/status.h"

namespace teraio::pytorch {

// Raises `status`, which must not be ok, as the C++ exception that PyTorch turns into Python's:
// torch.OutOfMemoryError for kOutOfMemory, what throw_interrupt() raises for kInterrupted, and
// RuntimeError for everything else. The message names the op; an empty `op_name` stands for an
// allocation outside of operators.
[[noreturn]] void throw_status(const Status& status, std::string_view op_name);

}  // namespace teraio::pytorch
