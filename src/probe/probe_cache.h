// The cache of measured drives: one file per drive in the user's cache directory. Any thread.
#pragma once

#include <filesystem>
#include <optional>

#include "base/status.h"
#include "probe/probe.h"

namespace teraio::probe {

// Reads the entry under `cache_directory`. Returns nullopt if it is absent or unreadable.
std::optional<DriveProbe> load_cached_probe(const std::filesystem::path& cache_directory,
                                            const std::filesystem::path& directory);
// Replaces the entry atomically.
Status save_cached_probe(const std::filesystem::path& cache_directory, const DriveProbe& probe);

// Returns the cached entry, or measures the drive and caches the result. One process at a time
// measures while the others wait, because ranks that start together would each measure only their
// part of the drive.
Result<DriveProbe> cached_or_measured(const std::filesystem::path& cache_directory,
                                      const std::filesystem::path& directory,
                                      const ProbeOptions& options);

}  // namespace teraio::probe
