// Writes the tables of `teraio characterize` as JSON ("teraio-characterization/1",
// docs/analysis.md), from which teraio_figures draws the figures.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "analysis/characterization.h"
#include "analysis/roofline.h"
#include "base/status.h"
#include "trace/trace.h"

namespace teraio::analysis {

struct CharacterizedTrace {
  trace::Trace trace;
  Characterization facts;
  std::optional<int64_t> capacity_bytes;  // of the device
  std::vector<RooflinePoint> roofline;    // empty without a capacity, or when an op does not fit
};

// Replaces `path` atomically. A failure names the file.
Status write_characterizations(std::span<const CharacterizedTrace> traces,
                               const std::filesystem::path& path);

}  // namespace teraio::analysis
