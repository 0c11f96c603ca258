// CapturedLog: what the process logs while the object lives.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace teraio::testing {

class CapturedLog {
 public:
  CapturedLog() { sinks() = {std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)}; }
  ~CapturedLog() { sinks() = before_; }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return text_.str(); }

 private:
  static std::vector<spdlog::sink_ptr>& sinks() { return spdlog::default_logger()->sinks(); }

  std::ostringstream text_;
  const std::vector<spdlog::sink_ptr> before_ = sinks();
};

}  // namespace teraio::testing
