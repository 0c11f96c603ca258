// Parts: what an iteration consists of, for people.
//
// Pure functions.
#pragma once

#include <string>

#include "iteration/profile.h"

namespace teraio::iteration {

// "2 forward from 0.up (model.py:31), 57 without gradients, 2 backward, 1 update": the passes of
// modules, with where the first one begins, those that begin without gradients (evaluations,
// rollouts, what others learn from), those of backward, and the updates of parameters or optimizer
// states, in rows that another pass ends. Names the trace where no op's origin is known.
std::string parts_of(const Profile& profile);

}  // namespace teraio::iteration
