// Executor: the streams of all emulated devices, and the threads that work them off: one for all
// work, or one for each unit of the devices (Settings::has_units).
//
// Work of one stream runs in the order of its submission. Which stream goes next is chosen by seed:
// with seed 0 it is the one with the oldest work, otherwise streams have random priorities that
// change now and then. The rules of CUDA hold in any case: waits for events, and the order between
// the legacy default stream and the streams that synchronize with it.
//
// Threads: any; each call holds the machine's lock, which a call that blocks releases meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "testing/cuda_emulation/settings.h"

namespace teraio::testing::emulated_cuda {

using Lock = std::unique_lock<std::mutex>;
using TimePoint = std::chrono::steady_clock::time_point;

// What works at the same time as the others. kNone: work that takes no unit, such as the record of
// an event.
enum class Unit { kNone, kCompute, kCopyIn, kCopyOut };

struct HardwareUnit {
  int32_t device = 0;
  Unit unit = Unit::kNone;
};

// One record of an event.
struct Point {
  bool has_passed = false;
  TimePoint when;
};
using PointPtr = std::shared_ptr<Point>;

struct Task {
  const char* name = "";
  std::function<void()> run;   // without the lock; an exception is a failure of the device
  PointPtr after;              // null: nothing to wait for
  PointPtr end;                // passes when the task has run
  const char* host = nullptr;  // pinned bytes that the task uses until it has run
  size_t host_bytes = 0;
  Unit unit = Unit::kNone;
  uint64_t ticket = 0;  // the order of submission over all streams, set by push()
};

struct Capture;

struct Stream {
  int32_t device = 0;
  bool is_legacy = false;
  bool synchronizes_with_legacy = true;
  bool is_destroyed = false;  // and goes when its work is done
  int32_t priority = 0;       // as the program set it; the order does not follow it
  uint64_t rank = 0;          // the order by seed
  std::deque<Task> queue;
  bool is_running = false;           // a thread runs the first task
  std::shared_ptr<Capture> capture;  // of which the stream is a part, or null

  bool is_done_until(uint64_t ticket) const {
    return queue.empty() || queue.front().ticket > ticket;
  }
};

class Executor {
 public:
  // `mutex` is the machine's lock.
  Executor(const Settings& settings, std::mutex& mutex);

  Stream* create_stream(int32_t device, unsigned flags, int32_t priority);
  // The stream goes when its work is done; nobody waits.
  void destroy_stream(Stream* stream);
  Stream& legacy_stream(int32_t device) { return legacy_.at(device); }
  bool is_stream(const Stream* stream) const;

  // Enqueues the task, or adds it to the stream's capture. Blocks while the stream's queue is full.
  void push(Stream& stream, Task task, Lock& lock);
  // Block until the work that has been submitted so far is done.
  void wait_for_stream(Stream& stream, Lock& lock);
  void wait_for_device(int32_t device, Lock& lock);
  void wait_for(const Point& point, Lock& lock);
  // The point has come: what waits for it may go on.
  void pass(Point& point);
  // A thread looks without waiting: with lazy execution a little may happen meanwhile.
  void look();

  // cudaSuccess, or the failure of a task: the devices can do nothing more.
  cudaError_t failure() const { return failure_; }
  // The name of a task that uses these bytes of the host and has not run, or null.
  const char* user_of(const char* host, size_t size_bytes) const;

 private:
  template <typename Condition>
  void wait_until(Lock& lock, Condition condition);
  void start();
  // The loop of a thread: for all work, or for that of `unit`.
  void work(const HardwareUnit* unit);
  bool has_work() const;
  // Lazy execution: whether something may run now. Waits a little otherwise.
  bool is_awake(Lock& lock);
  Stream* choose(const HardwareUnit* unit);
  bool may_run(const Stream& stream) const;
  static bool is_for(const HardwareUnit* unit, const Stream& stream);
  bool comes_before(const Stream& stream, const Stream& other) const;
  void run_first(Stream& stream, Lock& lock);
  void run_without_lock(Task& task, Lock& lock);
  // Everything but the legacy streams' own work that was submitted before has been done.
  bool are_others_done_until(uint64_t ticket, int32_t device) const;
  template <typename Visit>
  void for_each_stream(Visit visit) const;

  const Settings& settings_;
  std::mutex& mutex_;
  std::condition_variable changed_;
  std::deque<Stream> legacy_;  // by device; never moves
  std::set<Stream*> streams_;
  std::deque<HardwareUnit> units_;  // never move
  std::mt19937_64 random_;
  cudaError_t failure_ = cudaSuccess;
  uint64_t last_ticket_ = 0;
  int32_t waiting_threads_ = 0;
  int32_t tasks_allowed_ = 0;  // of lazy execution, before a thread waits
  bool is_started_ = false;
};

}  // namespace teraio::testing::emulated_cuda
