// Blocking transfers on threads, for one drive's file: works wherever files do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/drive_io.h"

namespace teraio::io {

struct ThreadIoOptions {
  std::string description;
  int32_t window = 1;
  // Moves bytes and blocks meanwhile; on as many threads at once as the window is wide. Returns
  // what IoResult::result is.
  std::function<int64_t(const IoRequest&)> transfer;
  // What DriveIo::error_text is; empty: results are errnos.
  std::function<std::string(int64_t)> error_text;
  // Called after every result, on any of the threads; may be empty.
  std::function<void()> on_result;
};

std::unique_ptr<DriveIo> make_thread_io(ThreadIoOptions options);

// pread and pwrite. `fd` outlives the result. Without direct I/O the page cache is dropped behind
// every request: the bytes would otherwise take up the host memory that offloading is to save.
std::unique_ptr<DriveIo> make_thread_io(int fd, bool is_direct, int32_t window);

}  // namespace teraio::io
