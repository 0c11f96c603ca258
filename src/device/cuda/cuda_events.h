// CudaEvents: the points in the order of streams that a Device hands out, over a pool of CUDA's.
//
// An Event is a number that its holders may copy and forget; CUDA's event behind it is used again
// once it has passed. Numbers that are no longer known have passed.
//
// Threads: any. The mutex is never held while a thread waits for the GPU.
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

// What was recorded earlier in one of these passes earlier, nearly always: where the search for
// events that can be used again begins.
enum class EventQueue : uint8_t { kCompute, kToHost, kFromHost, kElsewhere };

class CudaEvents {
 public:
  CudaEvents() = default;
  // Nobody waits any more.
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // The calling thread's current GPU is the stream's.
  Result<Event> record(cudaStream_t stream, EventQueue queue);
  // What `stream` is told from now on waits.
  Status make_wait(cudaStream_t stream, Event event);
  bool has_passed(Event event);
  // Sleeps until then.
  Status wait(Event event);

 private:
  struct Recorded {
    cudaEvent_t handle = nullptr;
    int32_t waiting_threads = 0;
  };

  // All of these with the mutex held.
  void reuse_passed();
  bool reuse_if_passed(uint64_t id);
  Result<cudaEvent_t> take_handle();

  std::mutex mutex_;
  std::unordered_map<uint64_t, Recorded> recorded_;  // and not known to have passed
  std::array<std::deque<uint64_t>, 4> queues_;       // of them, by EventQueue; some are gone
  std::vector<cudaEvent_t> unused_;
  uint64_t last_id_ = 0;
};

}  // namespace teraio::device
