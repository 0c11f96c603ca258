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

// One quantity that varies, or several together.
struct Sweep {
  std::vector<Quantity> quantities;
  std::vector<Outcome> outcomes;
  std::optional<size_t> cheapest;  // within 5 % of the best
  std::string note;                // why there are no outcomes
};

Status write_sweeps(const Question& question, const std::vector<Sweep>& sweeps,
                    const std::filesystem::path& path);

}  // namespace teraio::analysis
