#include "base/status.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
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
    case ErrorCode::kDeviceFailed:
      return "device failed";
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

// strerrorname_np() needs glibc 2.32, and the wheel runs with 2.31.
std::string errno_name(int error_number) {
  constexpr std::array<std::pair<int, const char*>, 22> kNames = {
      {{EACCES, "EACCES"},       {EAGAIN, "EAGAIN"},   {EBADF, "EBADF"},   {ECANCELED, "ECANCELED"},
       {EDQUOT, "EDQUOT"},       {EEXIST, "EEXIST"},   {EFAULT, "EFAULT"}, {EFBIG, "EFBIG"},
       {EILSEQ, "EILSEQ"},       {EINTR, "EINTR"},     {EINVAL, "EINVAL"}, {EIO, "EIO"},
       {EMFILE, "EMFILE"},       {ENODATA, "ENODATA"}, {ENODEV, "ENODEV"}, {ENOENT, "ENOENT"},
       {ENOMEM, "ENOMEM"},       {ENOSPC, "ENOSPC"},   {ENXIO, "ENXIO"},   {EPERM, "EPERM"},
       {EREMOTEIO, "EREMOTEIO"}, {EROFS, "EROFS"}}};
  for (const auto& [number, name] : kNames)
    if (number == error_number) return name;
  return fmt::format("errno {}", error_number);
}

Status::Status(ErrorCode code, std::string message) {
  if (code == ErrorCode::kOk) return;
  failure_ = std::make_shared<const Failure>(Failure{code, std::move(message), {}});
}

const std::string& Status::message() const {
  static const std::string empty;
  return ok() ? empty : failure_->message;
}

const std::vector<std::string>& Status::details() const {
  static const std::vector<std::string> none;
  return ok() ? none : failure_->details;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), std::string(context) + ": " + message()).with_details(details());
}

Status Status::with_details(std::vector<std::string> details) const {
  if (ok() || details.empty()) return *this;
  Failure failure = *failure_;
  for (std::string& line : details) failure.details.push_back(std::move(line));
  Status status;
  status.failure_ = std::make_shared<const Failure>(std::move(failure));
  return status;
}

}  // namespace teraio
