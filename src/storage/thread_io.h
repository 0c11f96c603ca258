// pread and pwrite on threads, for one drive's file: works wherever files do.
#pragma once

#include <cstdint>
#include <memory>

#include "storage/drive_io.h"

namespace teraio {

// `fd` outlives the result. Without direct I/O the page cache is dropped behind every request: the
// bytes would otherwise take up the host memory that offloading is to save.
std::unique_ptr<DriveIo> make_thread_io(int fd, bool is_direct, int32_t window);

}  // namespace teraio
