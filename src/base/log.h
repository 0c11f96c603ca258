// Logging for code that cannot include spdlog: its headers do not compile beside the fmt that
// PyTorch's wheel brings. Everything else calls spdlog, whose default logger these two share.
//
// Threads: any thread may call log_warning.
#pragma once

#include <string_view>

namespace teraio {

// Sends the log of the whole process to stderr, in place of spdlog's default, stdout. Call it
// before other threads log.
void log_to_stderr();

// One line at the level "warning".
void log_warning(std::string_view message);

}  // namespace teraio
