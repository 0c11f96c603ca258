#include "drive_life.h"

#include <fmt/format.h>

namespace teraio::cli {
namespace {

constexpr double kYearDays = 365.25;
constexpr double kYearNs = kYearDays * 24 * 3600 * 1e9;

}  // namespace

std::string life_text(double years) {
  if (years < 0.1) return fmt::format("{:.2g} days", years * kYearDays);
  return years < 10 ? fmt::format("{:.2g} years", years) : fmt::format("{:.0f} years", years);
}

std::string drive_life(const hardware::Hardware& hardware, int64_t written_bytes, int64_t step_ns) {
  const std::optional<double> steps = writes_until_worn(hardware, written_bytes);
  if (!steps) return "";
  return life_text(*steps * static_cast<double>(step_ns) / kYearNs);
}

}  // namespace teraio::cli
