// Python for the `teraio` command: its interpreter, and the figures that Python draws.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::cli {

// Returns $TERAIO_PYTHON, else the interpreter that the extension was built for, else `python3`
// from PATH.
std::string python_interpreter();

// Returns the failure "the Python interpreter "python3" cannot be started (...): set TERAIO_PYTHON
// to one that <need>".
Status cannot_start_python(const std::string& python, int error, std::string_view need);

// Returns the failure of $TERAIO_PYTHON if it names an interpreter that starts but does not find
// the package teraio. Without that variable it starts nothing.
Status check_chosen_python();

// Draws the figures of a file of tables into its folder, as SVG and PNG, with `python -m
// teraio_figures`, and waits for the end. Without Python or matplotlib it prints one line on stderr
// and returns ok, because the tables are the result.
Status draw_figures(const std::filesystem::path& tables);

}  // namespace teraio::cli
