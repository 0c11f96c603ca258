#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace teraio {

void log_to_stderr() {
  // The logger is never destroyed: the thread of a drive that answers late logs while the process
  // ends, when static objects are gone.
  static const auto* const kept = new std::shared_ptr<spdlog::logger>(spdlog::default_logger());
  (void)kept;
  spdlog::default_logger()->sinks() = {std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  const char* wanted = std::getenv("TERAIO_VERBOSE");
  const std::string_view text = wanted == nullptr ? "" : wanted;
  set_verbose(!text.empty() && text != "0");
}

void set_verbose(bool is_verbose) {
  spdlog::default_logger()->set_level(is_verbose ? spdlog::level::debug : spdlog::level::warn);
}

bool is_verbose() { return spdlog::default_logger()->should_log(spdlog::level::debug); }

void log_warning(std::string_view message) { spdlog::warn(message); }

std::string full_text(const Status& failure) { return failure.message() + detail_lines(failure); }

std::string detail_lines(const Status& failure) {
  std::string lines;
  if (!is_verbose()) return lines;
  for (const std::string& line : failure.details()) lines += "\n  " + line;
  return lines;
}

}  // namespace teraio
