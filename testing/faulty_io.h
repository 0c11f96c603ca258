// Faults by schedule, in front of any drive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "io/drive_io.h"

namespace teraio::testing {

// What happens to one request. The members that are set happen together where they can.
struct Fault {
  int error_number = 0;      // EIO, ENOSPC, EAGAIN ...: fails with it and never reaches the drive
  int64_t short_bytes = -1;  // only so many are asked of the drive, in whole blocks
  int32_t overtaken_by = 0;  // the result comes that many results later, or when no others come
  bool corrupts = false;     // a bit of what was read is flipped
};

// Asked once per request, on the drive's thread.
using FaultSchedule = std::function<std::optional<Fault>(const io::IoRequest&)>;

std::unique_ptr<io::DriveIo> make_faulty_io(std::unique_ptr<io::DriveIo> drive,
                                            FaultSchedule schedule);

// Chances per request, 0 to 1.
struct FaultRates {
  double passing = 0;  // EAGAIN and EINTR
  double partial = 0;  // short transfers
  double late = 0;
  double io_error = 0;
  double full = 0;  // ENOSPC, of writes
};

// The same seed and requests give the same faults.
FaultSchedule random_faults(uint64_t seed, const FaultRates& rates);

}  // namespace teraio::testing
