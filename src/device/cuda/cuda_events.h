// CudaEvents: the events of a CudaDevice, backed by a pool of CUDA events.
//
// An Event is a number that its holders may copy and drop. The pool reuses the CUDA event behind it
// once it has passed. An unknown number therefore denotes an event that has passed.
//
// Threads: any. The mutex is not held while a thread waits for the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace teraio::device {

// Groups events by stream. Events of one group pass nearly always in the order in which they were
// recorded, so the search for reusable CUDA events starts at the oldest one.
enum class EventQueue : uint8_t { kCompute, kToHost, kFromHost, kElsewhere };

class CudaEvents {
 public:
  CudaEvents() = default;
  // No thread may be waiting.
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Records an event on `stream`, which belongs to the calling thread's current GPU.
  Result<Event> record(cudaStream_t stream, EventQueue queue);
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

  // The callers hold the mutex.
  void reuse_passed();
  bool reuse_if_passed(uint64_t id);
  Result<cudaEvent_t> take_handle();

  std::mutex mutex_;
  std::unordered_map<uint64_t, Recorded> recorded_;  // not yet known to have passed
  // Ids by EventQueue. Some may no longer be in recorded_.
  std::array<std::deque<uint64_t>, 4> queues_;
  std::vector<cudaEvent_t> unused_;
  uint64_t last_id_ = 0;
};

}  // namespace teraio::device
