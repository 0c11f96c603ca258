// io_uring for one drive's file.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "io/drive_io.h"

namespace teraio::io {

// `fd` must outlive the result. Returns kUnsupported if the kernel or the container refuses
// io_uring.
Result<std::unique_ptr<DriveIo>> open_uring_io(int fd, int32_t in_flight_max);

}  // namespace teraio::io
