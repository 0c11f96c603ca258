#include "base/thread.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace teraio {

Result<std::thread> start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return Status(ErrorCode::kOutOfMemory,
                  fmt::format("the system refuses a thread: {}; a limit of processes may be the "
                              "reason (ulimit -u, or the pids limit of a container)",
                              errno_text(error.code().value())));
  }
}

}  // namespace teraio
