// Drive endurance: rated writes, and the life that a rate of writing leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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

// The time until the rated bytes are written at this rate: "3.5 days", "162 days", "4.6 years".
// Returns "no end" if nothing is written.
std::string describe_life(int64_t rated_bytes, double bytes_per_second);

}  // namespace teraio::drives
