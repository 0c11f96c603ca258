#include "drive_life.h"

#include <fmt/format.h>

namespace teraio::tools {
namespace {

constexpr double kYearNs = 365.25 * 24 * 3600 * 1e9;

}  // namespace

std::string drive_life(const Hardware& hardware, int64_t written_bytes, int64_t step_ns) {
  const std::optional<double> steps = writes_until_worn(hardware, written_bytes);
  if (!steps) return "";
  return fmt::format("{:.2g} years", *steps * static_cast<double>(step_ns) / kYearNs);
}

}  // namespace teraio::tools
