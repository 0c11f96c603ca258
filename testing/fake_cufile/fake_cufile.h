// A stand-in for libcufile.so.0: the same interface over real files, with scripted faults.
//
// It is built in several versions (CMakeLists.txt), each without the functions that the real
// library of its time lacks. It refuses files for the reasons that cuFile does: open flags, no
// direct I/O, no name, registered twice. It also refuses memory that is registered twice, and
// counts other misuse of memory. In a process with the emulated GPU (testing/cuda_emulation) it
// reaches the memory of that.
#pragma once

#include <cstdint>

namespace teraio::testing {
class SteppedDevice;
}

namespace teraio::testing {

// The state of one loaded library. A test sets its inputs before a run and reads its observations
// afterwards. Not thread-safe in between.
struct FakeCufile {
  // Inputs
  int driver_open_error = 0;
  bool is_driver_open_already = false;  // by other code in the process
  bool has_direct_path = true;          // false: files are refused, or served in compatibility mode
  bool is_compat_forced = false;        // like CUFILE_FORCE_COMPAT_MODE; cannot be changed
  bool is_compat_allowed = true;        // the parameter; closing the driver resets it
  bool keeps_compat_mode = false;       // the parameter cannot be changed
  bool corrupts_reads = false;
  int memory_error = 0;                   // the result of registering memory
  const SteppedDevice* device = nullptr;  // calls may use its addresses besides the CPU's

  // Reads and writes fail from the call with this number on (from 1; 0: never).
  int64_t failing_from = 0;
  int64_t failing_count = 1;   // how many calls fail
  int64_t failure_result = 0;  // their result: a code, or -1 for failure_errno
  int failure_errno = 0;
  int64_t short_bytes = 0;  // the most bytes per call; 0: no limit

  // Observations
  int64_t driver_open_count = 0;
  int64_t driver_close_count = 0;
  int64_t handle_count = 0;  // at present
  int64_t call_count = 0;    // reads and writes
  int64_t compat_count = 0;  // of these, in compatibility mode
  int64_t misaligned_count = 0;
  int64_t memory_count = 0;  // at present
  int64_t memory_bytes = 0;
  int64_t memory_registrations = 0;
  int64_t registered_call_count = 0;  // of call_count, with registered memory
  // Calls that name registered memory by an address other than its start or exceed its end, and
  // deregistrations of memory that is not registered.
  int64_t memory_misuse_count = 0;
};

}  // namespace teraio::testing

// The symbols to look up, besides cuFile's own. The last two are for programs in Python: one
// returns an observation by its name, or -1, and the other makes reads and writes fail from the
// call with the number `from` on, with cuFile's code `result`.
extern "C" {
teraio::testing::FakeCufile* fake_cufile();
int64_t fake_cufile_observed(const char* name);
void fake_cufile_fail(int64_t from, int64_t result);
}
