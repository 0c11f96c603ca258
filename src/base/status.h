// Status and Result: how functions report failures.
//
// A function that can fail returns a Status or a Result<T>. Code below the Python bindings throws
// no exception for a failure that use can cause. A message is one line that names the file, field
// or value and what was expected. Facts that a report of the problem needs are its details: users
// read them on request (base/log.h). Both types are values: they are copyable and can move between
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace teraio {

enum class ErrorCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong: a size, a path, a field of a file
  kNotFound,         // a file or directory that does not exist
  kOutOfMemory,      // the request exceeds the device budget or the host limit
  kOutOfSpace,       // a drive (or its share) is full
  kIoError,          // the system reported a failed or short transfer
  kCorrupted,        // bytes read differ from the bytes written
  kUnsupported,      // this machine, file system or version of PyTorch lacks a feature
  kCancelled,        // the request was cancelled before it started
  kInterrupted,      // the user ended a wait (Ctrl-C); the call has had no effect
  kDeviceFailed,     // the device does nothing more for this process: a kernel or its memory failed
  kReplayDue,        // the engine has discarded the bytes: the op that made them has to run first
  kInternal,         // an invariant of the program is broken
};

std::string_view to_string(ErrorCode code);

// Describes the error of a system call, such as "Input/output error (errno 5)". Any thread may call
// it.
std::string errno_text(int error_number);

// Returns the name of an error of I/O, such as "EIO", and "errno 200" for one that has none here.
// Any thread may call it.
std::string errno_name(int error_number);

// Ok, or a failure: a code and a message. An ok status is a null pointer, so that calls on the way
// of every op return it at no cost. Copies share the failure.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message);

  bool ok() const { return failure_ == nullptr; }
  ErrorCode code() const { return ok() ? ErrorCode::kOk : failure_->code; }
  // Empty when the status is ok. Valid while a copy of this status exists.
  const std::string& message() const;

  // Lines without an indent or an end, such as "request: 4096 bytes at offset 0". Valid while a
  // copy of this status exists.
  const std::vector<std::string>& details() const;

  // Returns the same failure with "context: " in front of its message, or ok when the status is ok.
  Status with_context(std::string_view context) const;
  // Returns the same failure with these lines after its details, or ok when the status is ok.
  Status with_details(std::vector<std::string> details) const;

  // Whether code and message are equal.
  bool operator==(const Status& other) const {
    return code() == other.code() && message() == other.message();
  }

 private:
  struct Failure {
    ErrorCode code;
    std::string message;
    std::vector<std::string> details;
  };

  std::shared_ptr<const Failure> failure_;  // null: ok
};

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }

  // Returns the failure, or ok when there is a value.
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

// Returns from the enclosing function with the failure of `expression` (a Status), if it failed. A
// Status that the expression only refers to is copied when it is a failure.
#define TERAIO_RETURN_IF_ERROR(expression)                                              \
  do {                                                                                  \
    if (auto&& teraio_status = (expression); !teraio_status.ok()) return teraio_status; \
  } while (false)
