// The place of the running program in its own source, for people.
//
// Threads: any, without a lock that a holder of Python's may wait for. Takes Python's lock.
#pragma once

#include <string>

namespace teraio::pytorch {

// The innermost line outside of torch that the calling thread executes, with its function:
// "train.py:31 in Attention.forward". Empty on a thread that runs no Python code, such as that of
// backward passes on a GPU. No exception leaves it, and one that is set in Python stays set.
std::string script_location();

}  // namespace teraio::pytorch
