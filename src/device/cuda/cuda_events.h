// CudaEvents: the events of a CudaDevice, backed by pools of CUDA events.
//
// An Event is a number that its holders may copy and drop. Once it has passed, the CUDA event
// behind it is reused. An unknown number therefore denotes an event that has passed.
//
// The events of a lane are those of one stream: they pass in the order in which they were recorded,
// which is that of their numbers. A lane has a lock and a pool of its own, so that threads of
// copies do not hold up the program's thread. It asks CUDA for events that have passed, from the
// oldest on, only when its pool is empty; one that was waited for returns there without a question.
//
// Threads: any. No lock is held while a thread waits for the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace teraio::device {

// Below kEventLanes.
using EventLane = uint32_t;
inline constexpr EventLane kComputeLane = 0;
// Of the framework's other streams, so that their events may pass in another order, and later.
inline constexpr EventLane kElsewhereLane = 1;
inline constexpr EventLane kFirstCopyLane = 2;
inline constexpr EventLane kEventLanes = 16;

class CudaEvents {
 public:
  CudaEvents() = default;
  // No thread may be waiting.
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Records an event on `stream`, which belongs to the calling thread's current GPU.
  Result<Event> record(cudaStream_t stream, EventLane lane);
  // Makes work that is enqueued on `stream` from now on wait for `event`.
  Status make_wait(cudaStream_t stream, Event event);
  bool has_passed(Event event);
  // Blocks the calling thread, without spinning, until `event` has passed.
  Status wait(Event event);

 private:
  struct Recorded {
    cudaEvent_t handle = nullptr;
    int32_t waiting_threads = 0;
  };
  using ById = std::map<uint64_t, Recorded>;
  struct Lane {
    std::mutex mutex;  // protects what follows
    ById recorded;     // not yet known to have passed; the oldest comes first
    std::vector<cudaEvent_t> unused;
    uint64_t last_number = 0;
  };

  Lane& lane_of(Event event) { return lanes_[event.id % kEventLanes]; }
  // The callers hold the lane's mutex.
  static bool has_passed(const Recorded& recorded);
  static ById::iterator reuse(Lane& lane, ById::iterator recorded);
  static void reuse_passed(Lane& lane);
  static Result<cudaEvent_t> take_handle(Lane& lane);

  std::array<Lane, kEventLanes> lanes_;
};

}  // namespace teraio::device
