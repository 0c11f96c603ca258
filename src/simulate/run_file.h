// A Run as JSON for other programs, and as a timeline for people.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::simulate {

// One object: ideal_ns, step_ns, fraction_of_ideal, stall_ns, stall_by_cause, bytes per tier and
// direction, peaks. Ends in a newline.
std::string run_json(const Run& run);

// Writes Chrome trace events, which ui.perfetto.dev and chrome://tracing open: ops and stalls, one
// row per channel, and the device memory in use. `.gz` compresses. `run` must have op_start_ns.
Status write_timeline(const Run& run, const trace::Trace& trace, const std::filesystem::path& path);

}  // namespace teraio::simulate
