// What a training run teaches about the rates of a drive. Any thread.
#pragma once

#include <optional>

#include "probe/probe.h"
#include "storage/tier_store.h"

namespace teraio::probe {

// Returns `known` with the rates that a run has measured; nullopt if it has loaded the drive for
// less than a second. A run of less than three such seconds counts in proportion. What the run did
// not show stays as it was: where it never loaded the drive in one direction alone, that rate
// follows from what both directions reached at once.
std::optional<DriveProbe> learned_from(const storage::DriveCounters& run, DriveProbe known);

}  // namespace teraio::probe
