// Logging for code that cannot include spdlog, whose headers do not compile with the version of fmt
// in the PyTorch wheel. All other code calls spdlog directly. These functions use its default
// logger.
//
// Threads: any thread may call log_warning.
#pragma once

#include <string_view>

namespace teraio {

// Sends the log of the whole process to stderr instead of stdout, the default of spdlog. Call it
// before other threads log.
void log_to_stderr();

// Logs one line at the level "warning".
void log_warning(std::string_view message);

}  // namespace teraio
