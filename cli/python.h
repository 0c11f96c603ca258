// The Python side of the command: which interpreter it uses, and the figures that Python draws.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::cli {

// Returns $TERAIO_PYTHON, else the interpreter that the extension was built for, else the one on
// the path.
std::string python_interpreter();

// Returns the failure "the Python interpreter "python3" cannot be started (...): set TERAIO_PYTHON
// to one that <need>".
Status cannot_start_python(const std::string& python, int error, std::string_view need);

// Draws the figures of a file of tables into its folder, as SVG and PNG, with `python -m
// teraio_figures`, and waits until that is done. Without Python or matplotlib it prints one line on
// stderr and returns success, because the tables are the result.
Status draw_figures(const std::filesystem::path& tables);

}  // namespace teraio::cli
