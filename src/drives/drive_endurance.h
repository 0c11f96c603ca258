// Drive endurance: rated writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace teraio::drives {

struct RatedEndurance {
  int64_t bytes_written = 0;  // that the maker warrants ("TBW")
  std::string_view source;    // where the figure comes from; says so if not from the maker
};

// Looks up the rated writes in a small table with sources, by the model that the drive reports.
// Returns nullopt for all other models; nothing is guessed. Any thread.
std::optional<RatedEndurance> rated_endurance(std::string_view model);

// Returns the rated writes of the drive behind a directory; nullopt if its model is not in the
// table, or hidden by the file system.
std::optional<int64_t> rated_bytes_written(const std::filesystem::path& directory);

}  // namespace teraio::drives
