#include "storage/slowdown.h"

#include <fmt/format.h>

#include "base/units.h"

namespace teraio::storage {
namespace {

// Drives start to slow down slightly below the limit that they report.
constexpr double kNearLimitCelsius = 2;

std::string rate(double bytes_per_second) {
  return format_size(static_cast<int64_t>(bytes_per_second)) + "/s";
}

std::string cause(const Slowdown& slowdown) {
  const auto& temperature = slowdown.temperature;
  if (temperature && temperature->limit_celsius &&
      temperature->celsius >= *temperature->limit_celsius - kNearLimitCelsius)
    return fmt::format("its temperature is {:.0f} C, it slows down at {:.0f} C",
                       temperature->celsius, *temperature->limit_celsius);
  const std::string warmth = temperature
                                 ? fmt::format("its temperature is {:.0f} C", temperature->celsius)
                                 : "its temperature is not known";
  return fmt::format("{}, {} were written to it in this run; no cause is known", warmth,
                     format_size(slowdown.bytes_written));
}

}  // namespace

std::string describe(const Slowdown& slowdown) {
  return fmt::format(
      "{} {}, {} planned; {}", slowdown.direction == io::Direction::kRead ? "reads" : "writes",
      rate(slowdown.bytes_per_second), rate(slowdown.expected_bytes_per_second), cause(slowdown));
}

}  // namespace teraio::storage
