// A DriveIo that injects faults into any drive, by a schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "io/drive_io.h"

namespace teraio::testing {

// The faults of one request. Those that are set occur together where possible.
struct Fault {
  int error_number = 0;      // EIO, ENOSPC, EAGAIN, ...: fails and never reaches the drive
  int64_t short_bytes = -1;  // limits the request to the drive, in whole blocks
  int32_t overtaken_by = 0;  // delays the result by that many results, or until no others are due
  bool corrupts = false;     // flips a bit of the bytes read
};

// Called once per request, on the drive's thread.
using FaultSchedule = std::function<std::optional<Fault>(const io::IoRequest&)>;

std::unique_ptr<io::DriveIo> make_faulty_io(std::unique_ptr<io::DriveIo> drive,
                                            FaultSchedule schedule);

// Probabilities per request, 0 to 1.
struct FaultRates {
  double passing = 0;  // EAGAIN and EINTR
  double partial = 0;  // short transfers
  double late = 0;
  double io_error = 0;
  double full = 0;  // ENOSPC, for writes
};

// The same seed and requests give the same faults.
FaultSchedule random_faults(uint64_t seed, const FaultRates& rates);

}  // namespace teraio::testing
