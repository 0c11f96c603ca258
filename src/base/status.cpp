#include "base/status.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace teraio {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kOutOfMemory:
      return "out of memory";
    case ErrorCode::kOutOfSpace:
      return "out of space";
    case ErrorCode::kIoError:
      return "I/O error";
    case ErrorCode::kCorrupted:
      return "corrupted";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kReplayDue:
      return "replay due";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

std::string errno_text(int error_number) {
  return fmt::format("{} (errno {})", strerror(error_number), error_number);
}

Status::Status(ErrorCode code, std::string message) {
  if (code == ErrorCode::kOk) return;
  failure_ = std::make_shared<const Failure>(Failure{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string empty;
  return ok() ? empty : failure_->message;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), std::string(context) + ": " + message());
}

}  // namespace teraio
