#include "base/status.h"

#include <fmt/format.h>

#include <cstring>

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

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

}  // namespace teraio
