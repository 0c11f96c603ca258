// Python's lock (the GIL), where code may run with it or without it.
//
// A thread that waits for another one must not hold it: the other thread may need it before it goes
// on. PyTorch calls some operators with it (indexing, `x[7:]`), and Python drops tensors with it.
#pragma once

#include <functional>

namespace teraio::pytorch {

// Calls `wait` without the GIL and takes the GIL again. Returns false and does nothing when the
// calling thread does not hold it, and when there is no interpreter. Any thread.
bool wait_without_python_lock(const std::function<void()>& wait);

}  // namespace teraio::pytorch
