#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

namespace teraio {
namespace {

constexpr double kLargestSize = 4611686018427387904.0;  // 2^62

std::optional<double> suffix_scale(std::string suffix) {
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (suffix.empty() || suffix == "b") return 1;
  const size_t prefix = std::string_view("kmgtp").find(suffix[0]);
  if (prefix == std::string_view::npos) return std::nullopt;
  const std::string rest = suffix.substr(1);
  if (rest == "ib") return std::pow(1024.0, static_cast<double>(prefix + 1));
  if (rest.empty() || rest == "b") return std::pow(1000.0, static_cast<double>(prefix + 1));
  return std::nullopt;
}

Status bad_size(std::string_view text, bool percent_allowed) {
  return Status(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is not a size: expected e.g. 1.5GB, 800MiB, 1200000000{}", text,
                            percent_allowed ? " or 40%" : ""));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Result<int64_t> parse_size(std::string_view text, int64_t whole_bytes) {
  const std::string_view body = trimmed(text);
  double number = 0;
  const auto [end, error] =
      std::from_chars(body.data(), body.data() + body.size(), number, std::chars_format::fixed);
  if (error != std::errc() || number < 0) return bad_size(text, whole_bytes > 0);
  const std::string suffix(trimmed(body.substr(static_cast<size_t>(end - body.data()))));
  std::optional<double> scale = suffix_scale(suffix);
  if (suffix == "%" && whole_bytes > 0) scale = static_cast<double>(whole_bytes) / 100.0;
  if (!scale || !(number * *scale < kLargestSize)) return bad_size(text, whole_bytes > 0);
  return static_cast<int64_t>(number * *scale);
}

std::string format_size(int64_t size_bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(size_bytes);
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", size_bytes);
  const double magnitude = std::abs(value);
  const int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string format_duration(int64_t duration_ns) {
  const double value = static_cast<double>(duration_ns);
  if (duration_ns >= 1'000'000'000) return fmt::format("{:.2f} s", value / 1e9);
  if (duration_ns >= 1'000'000) return fmt::format("{:.1f} ms", value / 1e6);
  if (duration_ns >= 1'000) return fmt::format("{:.0f} us", value / 1e3);
  return fmt::format("{} ns", duration_ns);
}

}  // namespace teraio
