// The tables of `teraio what-if` as JSON ("teraio-what-if/1", docs/analysis.md), from which the
// figures are drawn.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/what_if.h"
#include "base/status.h"

namespace teraio::analysis {

// One parameter that varies, or several together.
struct Sweep {
  std::vector<SweepParameter> parameters;
  std::vector<SweepResult> results;
  std::optional<size_t> cheapest;  // within 5 % of the best
  std::string note;                // why there are no results
};

Status write_sweeps(const SweepRequest& request, const std::vector<Sweep>& sweeps,
                    const std::filesystem::path& path);

}  // namespace teraio::analysis
