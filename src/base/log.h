// What the process tells, and how much of it.
//
// Warnings and errors are lines of the default logger of spdlog. By default a failure is one line.
// A verbose process logs all levels, and each failure is followed by its details.
//
// Code that can include spdlog calls it directly. The headers of spdlog do not compile with the
// version of fmt in the PyTorch wheel; log_warning() is for code that is compiled with that one.
//
// Threads: any thread may call these functions, except log_to_stderr().
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

// Sends the log of the whole process to stderr instead of stdout, the default of spdlog. The
// process is verbose if TERAIO_VERBOSE is set, and neither empty nor "0". Call it before other
// threads log.
void log_to_stderr();

void set_verbose(bool is_verbose);
bool is_verbose();

// Logs one line at the level "warning".
void log_warning(std::string_view message);

// Returns what people read of a failure: its message and its detail_lines().
std::string full_text(const Status& failure);

// Returns what follows a message about this failure: in a verbose process a line for each of its
// details, begun by a line feed and indented by two spaces, else "".
std::string detail_lines(const Status& failure);

}  // namespace teraio
