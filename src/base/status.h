// Status and Result: how a failure travels inside TERAIO, also between threads.
//
// Nothing below the Python bindings throws for a failure that use can cause; a function that can
// fail returns a Status or a Result<T>. A message is one line that names the file, field or value
// and what was expected. Both types are values: they are copyable and can move between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace teraio {

enum class ErrorCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong: a size, a path, a field of a file
  kNotFound,         // a file or directory that does not exist
  kOutOfMemory,      // the device budget or the host limit does not hold what was asked for
  kOutOfSpace,       // a drive (or its share) is full
  kIoError,          // the system reported a failed or short transfer
  kCorrupted,        // bytes came back different from what was written
  kUnsupported,      // this machine, file system or version of PyTorch cannot do it
  kCancelled,        // it was withdrawn before it started
  kInternal,         // an invariant of the program is broken
};

std::string_view to_string(ErrorCode code);

// "Input/output error (errno 5)": the text of a system call's failure. Any thread.
std::string errno_text(int error_number);

// Ok, or a kind of failure and a message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " in front of its message. An ok status stays as it is.
  Status with_context(std::string_view context) const;

  bool operator==(const Status&) const = default;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }

  // The failure; an ok status when there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  // Requires ok().
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace teraio

// Returns from the enclosing function with the failure of `expression`, a Status, if it is one.
#define TERAIO_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                            \
    if (::teraio::Status teraio_status = (expression); !teraio_status.ok()) return teraio_status; \
  } while (false)
