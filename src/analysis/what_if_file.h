// Writes the tables of `teraio what-if` as JSON ("teraio-what-if/1", docs/planning.md), from which
// teraio_figures draws the figures.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/what_if.h"
#include "base/status.h"

namespace teraio::analysis {

// A sweep over one parameter, or over several together.
struct Sweep {
  std::vector<SweepParameter> parameters;
  std::vector<SweepResult> results;
  std::optional<size_t> cheapest;  // among those within 5 % of the fastest step
  std::string note;                // why there are no results
};

// Replaces `path` atomically. A failure names the file.
Status write_sweeps(const SweepRequest& request, const std::vector<Sweep>& sweeps,
                    const std::filesystem::path& path);

}  // namespace teraio::analysis
