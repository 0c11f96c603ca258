// The Python side of the command: which interpreter, and the figures that it draws.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::cli {

// $TERAIO_PYTHON, else the interpreter that the extension was built for, else the one on the path.
std::string python_interpreter();

// "the Python interpreter "python3" cannot be started (...): set TERAIO_PYTHON to one that <need>".
Status cannot_start_python(const std::string& python, int error, std::string_view need);

// Draws the figures of a file of tables into its folder, as SVG and PNG, by `python -m
// teraio_figures`. Without Python or matplotlib one line on stderr says so, and that is no failure:
// the tables are what counts. Waits until it is done.
Status draw_figures(const std::filesystem::path& tables);

}  // namespace teraio::cli
