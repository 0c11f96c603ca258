// Processes that the program forks while a session runs, for example the workers of a DataLoader.
//
// A child has a copy of the parent's memory but none of the threads that move tensors, and locks
// may be held by threads that do not exist in it. In a child the hooks are off, allocations go to
// PyTorch's own allocator, and nothing frees or moves what the parent's session owns: resident
// tensors stay readable, and offloaded tensors still raise an error on access.
#pragma once

namespace teraio::pytorch {

// Watches for forks from now on. Threads: any; later calls have no effect.
void watch_forks();
// Returns whether this process was forked while a session ran. Threads: any; takes no lock.
bool is_forked_child();

}  // namespace teraio::pytorch
