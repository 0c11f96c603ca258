#include "io/drive_io.h"

namespace teraio::io {

std::string DriveIo::error_text(int64_t error_number) const {
  return errno_text(static_cast<int>(error_number));
}

}  // namespace teraio::io
