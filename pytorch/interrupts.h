// Ctrl-C ends a wait for a drive.
//
// Python handles a signal in its main thread, between two bytecodes, and a wait in C++ is inside of
// one. Without the GIL there is no public way to ask whether a signal waits to be handled, and a
// wait cannot take the GIL: another thread may hold it and want the runtime's lock. So while a
// session runs, a handler of ours counts SIGINT and calls Python's handler. A wait that sees the
// count grow ends, lets go of the runtime's lock, and then handles signals as Python's own waits do
// (PEP 475): what the program's handler raises ends the op, and otherwise the op waits again.
//
// Other threads than the main one raise nothing by themselves. They let the main thread go first,
// which may want the runtime's lock or the GIL. When it does not run Python code within a second,
// it waits in C++ for such a thread (for autograd's, for example): then their op raises
// KeyboardInterrupt, if the program has left SIGINT to Python. A wait of such a thread that begins
// after the signal lets the main thread go first too when that waits for the runtime's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "engine/wait_interrupt.h"

namespace teraio::pytorch {

// Threads: any. The process has one.
class Interrupts final : public engine::WaitInterrupt {
 public:
  static Interrupts& instance();

  // Counts SIGINT from now on, where Python handles it. Needs the GIL.
  void start();
  // Gives SIGINT back, unless somebody else has taken it.
  void stop();

  // The program may have set another handler of Python's meanwhile, which is counted from now on.
  uint64_t mark() override;
  bool has_come_since(uint64_t mark) override;
  // May run handlers of signals, with the GIL. What they raise is kept for throw_interrupt().
  bool ends_call() override;

  // Waits for a lock of the runtime: YieldingMutex's WaitWithoutOtherLock.
  bool wait_for_lock(const std::function<void()>& wait);

  // Runs the handlers of signals that have come, with the GIL, if this is Python's main thread.
  // True: one has raised an error, which is kept for throw_interrupt(). Needs no start().
  bool handle_signals();

 private:
  Interrupts() = default;
  bool is_main_thread() const;
  bool does_main_thread_answer(uint64_t count) const;

  uint64_t main_thread_ = 0;                // as PyThread_get_thread_ident() returns it
  std::atomic<uint64_t> seen_by_main_ = 0;  // set by the main thread
};

// Keeps the Python error that is set for throw_interrupt(), and returns the status that ends the
// call. Needs the GIL.
Status keep_raised();

// An exception has come out of Python code that an op runs for the session's own sake. Where a
// signal's handler has raised it (KeyboardInterrupt, SystemExit: what is no Exception), the program
// gets its type when this thread executes Python code again, or waits; the op goes on. Needs the
// GIL.
void raise_after_op(const pybind11::error_already_set& error);

// Raises what has ended the call on this thread. A KeyboardInterrupt gets the status's message.
[[noreturn]] void throw_interrupt(const Status& status);

}  // namespace teraio::pytorch
