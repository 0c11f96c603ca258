#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace teraio {

void log_to_stderr() {
  spdlog::default_logger()->sinks() = {std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
}

void log_warning(std::string_view message) { spdlog::warn(message); }

}  // namespace teraio
