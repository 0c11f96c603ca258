// A stand-in for libcufile.so.0: the same interface over real files, with faults by script.
//
// Built in several versions (CMakeLists.txt) that lack what the real ones of their time lack. Files
// are refused for what cuFile refuses: open flags, no direct I/O, no name, registered twice. So is
// memory that is registered twice; what else is wrong with it is counted.
#pragma once

#include <cstdint>

namespace teraio::testing {
class FakeAsyncDevice;
}

namespace teraio::testing {

// Of one loaded library. What it does is set before, what it saw is read after; not thread-safe
// meanwhile.
struct FakeCufile {
  // Finds
  int driver_open_error = 0;
  bool is_driver_open_already = false;  // by somebody else in the process
  bool has_direct_path = true;          // no: files are refused, or served in compatibility mode
  bool is_compat_forced = false;        // as by CUFILE_FORCE_COMPAT_MODE, cannot be changed
  bool is_compat_allowed = true;        // the parameter; closing the driver resets it
  bool keeps_compat_mode = false;       // the parameter cannot be changed
  bool corrupts_reads = false;
  int memory_error = 0;                     // that registering memory gives
  const FakeAsyncDevice* device = nullptr;  // whose addresses calls may name, beside the CPU's

  // From the call of this number on (reads and writes, from 1; 0: never) ...
  int64_t failing_from = 0;
  int64_t failing_count = 1;   // ... that many give this:
  int64_t failure_result = 0;  // a code; -1: see the next
  int failure_errno = 0;
  int64_t short_bytes = 0;  // at most so many per call; 0: no limit

  // Saw
  int64_t driver_open_count = 0;
  int64_t driver_close_count = 0;
  int64_t handle_count = 0;  // registered now
  int64_t call_count = 0;    // of reads and writes
  int64_t compat_count = 0;  // of them in compatibility mode
  int64_t misaligned_count = 0;
  int64_t memory_count = 0;  // registered now
  int64_t memory_bytes = 0;
  int64_t memory_registrations = 0;
  int64_t registered_call_count = 0;  // of call_count, to registered memory
  // Registered memory named by another address than its begin, or beyond its end; memory
  // deregistered that was not registered.
  int64_t memory_misuse_count = 0;
};

}  // namespace teraio::testing

// The symbol to look up, beside cuFile's own.
extern "C" teraio::testing::FakeCufile* fake_cufile();
