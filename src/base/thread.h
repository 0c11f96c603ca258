// start_thread(): a thread that the system may refuse.
#pragma once

#include <functional>
#include <thread>

#include "base/status.h"

namespace teraio {

// Starts a thread that calls `work`, which must not throw. Returns kOutOfMemory when the system
// refuses the thread, for example because of a limit of processes. std::thread throws then, which
// ends the process when threads that were started before are destroyed.
Result<std::thread> start_thread(std::function<void()> work);

}  // namespace teraio
