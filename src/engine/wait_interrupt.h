// WaitInterrupt: how a wait for I/O learns that the user wants it to end (Ctrl-C).
//
// A wait compares marks, because an interrupt that came before it has been handled elsewhere:
//
//   mark() -- the wait begins -- has_come_since() about every 100 ms -- kInterrupted -- ends_call()
//
// Threads: any. mark() and has_come_since() are called under the runtime's lock and must not block;
// ends_call() is called without it.
#pragma once

#include <cstdint>

namespace teraio::engine {

class WaitInterrupt {
 public:
  virtual ~WaitInterrupt() = default;

  // A wait of this thread begins.
  virtual uint64_t mark() = 0;
  // Returns whether an interrupt has come that the wait has to end for.
  virtual bool has_come_since(uint64_t mark) = 0;
  // Handles the interrupt that has ended a wait of this thread. True: the call that waited fails
  // with kInterrupted. False: it waits again.
  virtual bool ends_call() = 0;
};

}  // namespace teraio::engine
