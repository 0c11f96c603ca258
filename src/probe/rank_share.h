// The share of the drives that each rank of a machine gets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/status.h"
#include "probe/probe.h"

namespace teraio::probe {

using Directories = std::vector<std::filesystem::path>;

// Counts the ranks with a directory on the drive of `directory`; at least 1. `ranks` contains the
// directories of each rank. Fails like identify_drive(), whose message names the directory.
Result<int32_t> ranks_on_drive(const std::filesystem::path& directory,
                               std::span<const Directories> ranks);

// Returns one of `rank_count` equal shares of the drive's free space and rates.
DriveProbe share_of(DriveProbe drive, int32_t rank_count);

}  // namespace teraio::probe
