// Processes that the program forks while a session runs, for example the workers of a DataLoader.
//
// A child has a copy of the parent's memory but none of the threads that move tensors. In a child
// the hooks are off, allocations go to PyTorch's own allocator, and nothing touches what the
// parent's session owns: resident tensors stay readable, and offloaded tensors still raise an error
// on access.
#pragma once

namespace teraio::pytorch {

// Makes is_forked_child() true in every process forked from now on.
void watch_forks();
bool is_forked_child();

}  // namespace teraio::pytorch
