#include "storage/drive_endurance.h"

#include <fmt/format.h>

#include <string>

namespace teraio {
namespace {

constexpr int64_t kTerabyte = 1'000'000'000'000;
constexpr double kSecondsPerDay = 86400;

struct Rating {
  std::string_view model;  // contained in what the drive tells
  int64_t terabytes_written;
  std::string_view source;
};

constexpr std::string_view k970Evo = "Samsung's announcement of 2018, techgage.com";
constexpr std::string_view k980Pro = "Samsung's announcement of 2020, techbriefly.com";
constexpr std::string_view k990Pro = "Samsung's specification of 2022";
constexpr std::string_view kSn850x = "Western Digital's specification of 2022";

constexpr Rating kRatings[] = {
    {"Samsung SSD 970 EVO 250GB", 150, k970Evo}, {"Samsung SSD 970 EVO 500GB", 300, k970Evo},
    {"Samsung SSD 970 EVO 1TB", 600, k970Evo},   {"Samsung SSD 970 EVO 2TB", 1200, k970Evo},
    {"Samsung SSD 980 PRO 1TB", 600, k980Pro},   {"Samsung SSD 990 PRO 1TB", 600, k990Pro},
    {"Samsung SSD 990 PRO 2TB", 1200, k990Pro},  {"Samsung SSD 990 PRO 4TB", 2400, k990Pro},
    {"WD_BLACK SN850X 1000GB", 600, kSn850x},    {"WD_BLACK SN850X 2000GB", 1200, kSn850x},
    {"WD_BLACK SN850X 4000GB", 2400, kSn850x},
};

}  // namespace

std::optional<RatedEndurance> rated_endurance(std::string_view model) {
  for (const Rating& rating : kRatings) {
    if (model.find(rating.model) == std::string_view::npos) continue;
    return RatedEndurance{rating.terabytes_written * kTerabyte, rating.source};
  }
  return std::nullopt;
}

std::string describe_life(int64_t rated_bytes, double bytes_per_second) {
  if (bytes_per_second <= 0) return "no end";
  const double days = static_cast<double>(rated_bytes) / bytes_per_second / kSecondsPerDay;
  if (days >= 730) return fmt::format("{:.1f} years", days / 365.25);
  return days >= 100 ? fmt::format("{:.0f} days", days) : fmt::format("{:.1f} days", days);
}

}  // namespace teraio
