// Parts: what an iteration consists of, for people.
//
// Pure functions.
#pragma once

#include <string>

#include "iteration/profile.h"

namespace teraio::iteration {

// "57 forward from 0.up (model.py:31), 1 backward, 1 update": the passes of modules, with where the
// first one begins, those of backward, and the updates of parameters or optimizer states, in rows
// that another forward pass ends. Names the trace where no op's origin is known.
std::string parts_of(const Profile& profile);

}  // namespace teraio::iteration
