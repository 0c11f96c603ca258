// Forecast: when each op would start if a draft were executed.
//
// The planner's own, deliberately small model of the execution rules: enough to stretch the
// timeline on which bandwidth is booked, and to tell a better draft from a worse one. It leaves out
// what does not change those answers: writes that overtake others.
#pragma once

#include <optional>

#include "planner/draft.h"
#include "planner/search.h"

namespace teraio::planner {

// An iteration in steady state. Nothing when the draft runs into a deadlock, which one whose
// excess() is nowhere above zero does not.
std::optional<Execution> forecast(const Draft& draft);

}  // namespace teraio::planner
