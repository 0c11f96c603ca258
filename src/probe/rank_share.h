// What one of a machine's ranks (processes, one per device) has of the drives that they share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/status.h"
#include "probe/probe.h"

namespace teraio::probe {

using Directories = std::vector<std::filesystem::path>;

// How many ranks have a directory on the drive of `directory`; 1 where nobody is said to. `ranks`:
// the directories of each. Fails as identify_drive does, with the directory's name.
Result<int32_t> ranks_on_drive(const std::filesystem::path& directory,
                               std::span<const Directories> ranks);

// One of `rank_count` equal shares of a drive: of its room and its rates.
DriveProbe share_of(DriveProbe drive, int32_t rank_count);

}  // namespace teraio::probe
