// ComputePoints: how far the device has come with the ops that the program has enqueued.
//
// A program enqueues ops faster than a GPU runs them, up to a thousand of them. A transfer has to
// wait for the last op that used its memory, and not for those that were enqueued since. And a
// program that is far ahead asks for a prefetch when its memory is still in use, so that while a
// plan is followed, it waits for compute that was enqueued a few milliseconds ago. The GPU stays
// busy.
//
//   ops      |....1 ms....|....1 ms....|....1 ms....|....1 ms....|
//   points   ^            ^ waited for ^            ^            now
//                              ^ used here: the point after it is waited for
//
// Of ops that take longer each, one is enough.
//
// Threads: under the engine's lock. The result of end_op() is waited for without it.
#pragma once

#include <cstdint>
#include <deque>

#include "device/device_order.h"

namespace teraio::engine {

class ComputePoints {
 public:
  // `device` outlives the object.
  explicit ComputePoints(device::DeviceOrder& device) : device_(device) {}

  // An op begins. Ops are numbered as they begin.
  void begin_op();
  // The op that has begun last, to which everything counts that the program enqueues now. Before
  // the first op, 1.
  uint64_t op() const { return op_; }
  // An op that takes `duration_ns` on the device has been enqueued, and a plan is followed. Returns
  // the point of compute to wait for before the next one, each once; the id 0 stands for none.
  device::Event end_op(int64_t duration_ns);

  // A point at which the device has done everything that counts to the ops up to this one. It may
  // be a later one than is needed.
  device::Event after(uint64_t op);

 private:
  struct Point {
    device::Event event;
    uint64_t op = 0;          // what counts to the ops up to this one was enqueued before
    int64_t duration_ns = 0;  // of the ops since the point before
  };

  void drop_passed();

  device::DeviceOrder& device_;
  uint64_t op_ = 1;
  std::deque<Point> points_;  // one about every millisecond of compute, the oldest first
  uint64_t passed_op_ = 0;    // of a point that has passed
  uint64_t awaited_op_ = 0;   // of the last result of end_op()
  int64_t since_point_ns_ = 0;
};

}  // namespace teraio::engine
