// Blocking transfers on threads for one drive's file. Works on every file system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/drive_io.h"

namespace teraio::io {

struct ThreadIoOptions {
  std::string description;
  int32_t in_flight_max = 1;
  // Moves the bytes of a request and blocks until it is done. Up to `in_flight_max` threads call it
  // at the same time. Returns the value of IoResult::result, or that of IoResult::failure.
  std::function<Result<int64_t>(const IoRequest&)> transfer;
  // Implements DriveIo::error_text(). If empty, errors are errnos.
  std::function<std::string(int64_t)> error_text;
  // Called after every result, on any of the threads; may be empty.
  std::function<void()> on_result;
};

// Starts `in_flight_max` threads, which the destructor joins. If the system refuses some of them,
// logs a warning and uses the others; fails if it refuses all.
Result<std::unique_ptr<DriveIo>> make_thread_io(ThreadIoOptions options);

// Transfers with pread and pwrite. `fd` must outlive the result. Without direct I/O, drops the page
// cache after every request, because the cache would occupy the host memory that offloading is to
// save.
Result<std::unique_ptr<DriveIo>> make_thread_io(int fd, bool is_direct, int32_t in_flight_max);

}  // namespace teraio::io
