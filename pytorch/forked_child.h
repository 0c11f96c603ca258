// Processes that the program forks while a session runs: workers of a DataLoader, for example.
//
// A child has the parent's memory as it was, but none of the threads that move tensors. In it the
// hooks are off, allocations are PyTorch's own, and what the parent's session owns is left alone:
// resident tensors read as they were, and those that were away still raise when they are touched.
#pragma once

namespace teraio::pytorch {

// From now on children of this process know what they are.
void watch_forks();
bool is_forked_child();

}  // namespace teraio::pytorch
