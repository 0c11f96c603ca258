// RunAhead: keeps the program a few milliseconds of compute ahead of the device, and no more.
//
// A program enqueues ops faster than a GPU runs them, up to a thousand of them. But memory comes
// free, and transfers end, when the GPU is there: a program that is far ahead asks for a prefetch
// when its memory is still in use, and meets the memory only when it waits for it. So while a plan
// is followed, the program waits for compute that was enqueued a while ago. The GPU stays busy.
//
//   ops     |....1 ms....|....1 ms....|....1 ms....|....1 ms....|
//   marks                ^ waited for                           ^ now
//
// Of ops that take longer each, one is enough.
//
// Threads: under the lock of its owner. The result of add_op() is waited for without it.
#pragma once

#include <cstdint>
#include <deque>

#include "device/device.h"

namespace teraio::engine {

class RunAhead {
 public:
  // `device` outlives the object.
  explicit RunAhead(device::Device& device) : device_(device) {}

  // An op that takes `duration_ns` on the device has been enqueued. Returns the point of compute to
  // wait for before the next one; the id 0 stands for none.
  device::Event add_op(int64_t duration_ns);

 private:
  struct Mark {
    device::Event end;
    int64_t duration_ns = 0;  // of the ops since the mark before
  };

  device::Device& device_;
  std::deque<Mark> marks_;  // one about every millisecond of compute, the oldest first
  int64_t marked_ns_ = 0;   // the sum of their durations
  int64_t since_mark_ns_ = 0;
};

}  // namespace teraio::engine
