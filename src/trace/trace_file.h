// Reads, writes and validates trace files (`.json` or `.json.gz`, docs/formats.md). Any thread may
// call these functions.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "trace/trace.h"

namespace teraio::trace {

// Reads and validates a trace. A failure names the file, the field (as a path such as
// ops[12].reads[0]) and what was expected. Unknown fields are ignored.
Result<Trace> read_trace(const std::filesystem::path& path);

// Replaces `path` atomically, so that a reader sees a complete file. Compresses when the name ends
// in ".gz". Fails when the trace is not valid, and on I/O errors.
Status write_trace(const Trace& trace, const std::filesystem::path& path);

// Checks the rules that read_trace() enforces: ids are unique and not negative, sizes and times are
// not negative, references are in range, an op uses a tensor at most once, and no op uses or frees
// a tensor that has been freed.
Status validate(const Trace& trace);

}  // namespace teraio::trace
