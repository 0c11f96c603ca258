// What `teraio explain --run` prints: which steps of a run followed plans, and what made the others
// differ.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::cli {

// Reads run.json in the directory, which `teraio run --report` has written, and formats its
// patterns and differences (Session.patterns() and Session.differences() in Python). A failure
// names the file and the field.
Result<std::string> explain_run(const std::filesystem::path& directory);

}  // namespace teraio::cli
