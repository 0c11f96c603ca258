#include "drive_life.h"

#include <fmt/format.h>

#include "analysis/prices.h"

namespace teraio::cli {
namespace {

constexpr double kYearDays = 365.25;

}  // namespace

std::string life_text(double years) {
  if (years < 0.1) return fmt::format("{:.2g} days", years * kYearDays);
  return years < 10 ? fmt::format("{:.2g} years", years) : fmt::format("{:.0f} years", years);
}

std::string drive_life(const hardware::Hardware& hardware, int64_t written_bytes, int64_t step_ns) {
  const std::optional<double> years = analysis::drive_life_years(hardware, written_bytes, step_ns);
  return years ? life_text(*years) : "";
}

}  // namespace teraio::cli
