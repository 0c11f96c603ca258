// Run files: a Run as JSON for other programs, and as a timeline for people.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/status.h"
#include "simulate/pattern_change.h"
#include "simulate/pattern_run.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::simulate {

// Returns one JSON object: ideal_ns, step_ns, fraction_of_ideal, stall_ns, stall_by_cause, bytes
// per tier and direction, and peaks. The text ends in a newline.
std::string run_json(const Run& run);

// Returns one JSON object about a program whose steps differ. "patterns" is a list of objects with
// the trace's name, its share of the steps and the fields of run_json(). "mean" has these fields of
// mean_run(), "mean_in_random_order" those of mean_run_in_random_order(), or null. "changes" is a
// list of objects with two names ("traces") and the cost, or why it is not known ("unknown").
// Requires what mean_run() requires, and `changes` of `patterns`.
std::string patterns_json(std::span<const PatternRun> patterns,
                          std::span<const PatternChange> changes);

// Writes a timeline as Chrome trace events, which ui.perfetto.dev and chrome://tracing open: ops,
// stalls by cause and replays, a row per channel, and the device memory in use. Compresses when the
// name ends in ".gz". Requires that `run` has op_start_ns and is a run of `trace`. A failure names
// the file.
Status write_timeline(const Run& run, const trace::Trace& trace, const std::filesystem::path& path);

}  // namespace teraio::simulate
