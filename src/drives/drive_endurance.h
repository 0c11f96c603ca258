// How long drives live: rated bytes written, and what a rate of writing makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace teraio::drives {

struct RatedEndurance {
  int64_t bytes_written = 0;  // that the maker warrants ("TBW")
  std::string_view source;    // says so where it is not the maker's own
};

// From a small table with sources, by the model that the drive tells; nullopt for all others: never
// guessed.
std::optional<RatedEndurance> rated_endurance(std::string_view model);

// "3.5 days", "162 days", "4.6 years": until the rated bytes are written at that many per second;
// "no end" when nothing is written.
std::string describe_life(int64_t rated_bytes, double bytes_per_second);

}  // namespace teraio::drives
