// The trace file, `.json` or `.json.gz`: see docs/formats.md.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "trace/trace.h"

namespace teraio::trace {

// Reads and validates. A failure names the file, the field (as a path such as ops[12].reads[0]) and
// what was expected there. Extra fields are accepted.
Result<Trace> read_trace(const std::filesystem::path& path);

// Writes through a temporary file beside `path`, so that a reader sees the whole file or none.
// Compresses when the name ends in ".gz".
Status write_trace(const Trace& trace, const std::filesystem::path& path);

// The rules that read_trace enforces, on a value: ids unique and not negative, sizes and times not
// negative, references in range, a tensor at most once in an op, frees of tensors that are alive.
Status validate(const Trace& trace);

}  // namespace teraio::trace
