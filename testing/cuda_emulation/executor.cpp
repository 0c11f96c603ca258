#include "testing/cuda_emulation/executor.h"

#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "testing/cuda_emulation/capture.h"

namespace teraio::testing::emulated_cuda {
namespace {

// How often the priorities of streams change: after one of so many pieces of work.
constexpr uint64_t kTasksPerRank = 8;
// For programs that look at memory and never ask CUDA: lazy execution goes on after a while. It is
// long, so that a slow machine does not take the program's own pauses for it.
constexpr auto kLazyPause = std::chrono::milliseconds(500);
constexpr int32_t kTasksPerPause = 100;

// The text of the failure, or "".
std::string failure_of(const std::function<void()>& run) {
  try {
    if (run) run();
    return "";
  } catch (const std::exception& error) {
    return std::string("failed: ") + error.what();
  }
}

}  // namespace

Executor::Executor(const Settings& settings, std::mutex& mutex)
    : settings_(settings), mutex_(mutex), random_(settings.seed) {
  for (int32_t device = 0; device < settings.device_count; ++device) {
    Stream& stream = legacy_.emplace_back();
    stream.device = device;
    stream.is_legacy = true;
    stream.rank = random_();
    if (!settings.has_units) continue;
    for (const Unit unit : {Unit::kCompute, Unit::kCopyIn, Unit::kCopyOut})
      units_.push_back({device, unit});
  }
}

// The machine is never destroyed.
void Executor::start() {
  is_started_ = true;
  if (units_.empty()) std::thread([this] { work(nullptr); }).detach();
  for (const HardwareUnit& unit : units_) std::thread([this, &unit] { work(&unit); }).detach();
}

Stream* Executor::create_stream(int32_t device, unsigned flags, int32_t priority) {
  auto* stream = new Stream();
  stream->device = device;
  stream->synchronizes_with_legacy = (flags & cudaStreamNonBlocking) == 0;
  stream->priority = priority;
  stream->rank = random_();
  streams_.insert(stream);
  return stream;
}

void Executor::destroy_stream(Stream* stream) {
  stream->is_destroyed = true;
  if (!stream->queue.empty()) return;
  streams_.erase(stream);
  delete stream;
}

bool Executor::is_stream(const Stream* stream) const {
  for (const Stream& legacy : legacy_)
    if (stream == &legacy) return true;
  const auto found = streams_.find(const_cast<Stream*>(stream));
  return found != streams_.end() && !(*found)->is_destroyed;
}

template <typename Visit>
void Executor::for_each_stream(Visit visit) const {
  for (Stream* stream : streams_) visit(*stream);
  for (const Stream& stream : legacy_) visit(const_cast<Stream&>(stream));
}

// --- Submission ---------------------------------------------------------------------------------

void Executor::push(Stream& stream, Task task, Lock& lock) {
  if (stream.capture != nullptr) {
    stream.capture->tasks.push_back(std::move(task));
    return;
  }
  if (!is_started_) start();
  if (stream.queue.size() >= settings_.launch_queue_length)
    wait_until(lock, [&] { return stream.queue.size() < settings_.launch_queue_length; });
  task.ticket = ++last_ticket_;
  stream.queue.push_back(std::move(task));
  changed_.notify_all();
}

template <typename Condition>
void Executor::wait_until(Lock& lock, Condition condition) {
  ++waiting_threads_;
  changed_.notify_all();
  while (!condition()) changed_.wait(lock);
  --waiting_threads_;
}

bool Executor::are_others_done_until(uint64_t ticket, int32_t device) const {
  for (const Stream* other : streams_) {
    if (other->device == device && other->synchronizes_with_legacy && !other->is_done_until(ticket))
      return false;
  }
  return true;
}

void Executor::wait_for_stream(Stream& stream, Lock& lock) {
  const uint64_t ticket = last_ticket_;
  wait_until(lock, [&] {
    return stream.is_done_until(ticket) &&
           (!stream.is_legacy || are_others_done_until(ticket, stream.device));
  });
}

void Executor::wait_for_device(int32_t device, Lock& lock) {
  const uint64_t ticket = last_ticket_;
  wait_until(lock, [&] {
    bool is_done = true;
    for_each_stream([&](const Stream& stream) {
      is_done &= stream.device != device || stream.is_done_until(ticket);
    });
    return is_done;
  });
}

void Executor::wait_for(const Point& point, Lock& lock) {
  wait_until(lock, [&] { return point.has_passed; });
}

void Executor::pass(Point& point) {
  point = {true, std::chrono::steady_clock::now()};
  changed_.notify_all();
}

void Executor::look() {
  if (!settings_.is_lazy) return;
  tasks_allowed_ += static_cast<int32_t>(random_() % 3);
  changed_.notify_all();
}

const char* Executor::user_of(const char* host, size_t size_bytes) const {
  const char* name = nullptr;
  for_each_stream([&](const Stream& stream) {
    for (const Task& task : stream.queue) {
      const bool is_used = task.host != nullptr && task.host < host + size_bytes &&
                           host < task.host + task.host_bytes;
      if (is_used) name = task.name;
    }
  });
  return name;
}

// --- Execution ----------------------------------------------------------------------------------

bool Executor::has_work() const {
  bool has_any = false;
  for_each_stream([&](const Stream& stream) { has_any |= !stream.queue.empty(); });
  return has_any;
}

bool Executor::may_run(const Stream& stream) const {
  if (stream.queue.empty() || stream.is_running) return false;
  const Task& task = stream.queue.front();
  if (task.after != nullptr && !task.after->has_passed) return false;
  if (stream.is_legacy) return are_others_done_until(task.ticket, stream.device);
  return !stream.synchronizes_with_legacy || legacy_.at(stream.device).is_done_until(task.ticket);
}

bool Executor::comes_before(const Stream& stream, const Stream& other) const {
  if (settings_.seed == 0) return stream.queue.front().ticket < other.queue.front().ticket;
  return stream.rank > other.rank;
}

bool Executor::is_for(const HardwareUnit* unit, const Stream& stream) {
  if (unit == nullptr) return true;
  const Unit needed = stream.queue.front().unit;
  return stream.device == unit->device && (needed == Unit::kNone || needed == unit->unit);
}

Stream* Executor::choose(const HardwareUnit* unit) {
  Stream* first = nullptr;
  for_each_stream([&](Stream& stream) {
    if (!may_run(stream) || !is_for(unit, stream)) return;
    if (first == nullptr || comes_before(stream, *first)) first = &stream;
  });
  const bool is_reordered = settings_.seed != 0 && first != nullptr;
  if (is_reordered && random_() % kTasksPerRank == 0) first->rank = random_();
  return first;
}

bool Executor::is_awake(Lock& lock) {
  if (!settings_.is_lazy || waiting_threads_ > 0) return true;
  if (tasks_allowed_ > 0) {
    --tasks_allowed_;
    return true;
  }
  if (changed_.wait_for(lock, kLazyPause) == std::cv_status::timeout)
    tasks_allowed_ = kTasksPerPause;
  return false;
}

void Executor::work(const HardwareUnit* unit) {
  Lock lock(mutex_);
  for (;;) {
    if (!has_work()) {
      changed_.wait(lock);
    } else if (is_awake(lock)) {
      Stream* stream = choose(unit);
      if (stream != nullptr) run_first(*stream, lock);
      if (stream == nullptr) changed_.wait(lock);
    }
  }
}

void Executor::run_without_lock(Task& task, Lock& lock) {
  lock.unlock();
  const std::string failure = failure_of(task.run);
  task.run = nullptr;  // what it holds may call us when it is dropped
  lock.lock();
  if (failure.empty()) return;
  std::fprintf(stderr, "emulated CUDA: %s %.2000s\n", task.name, failure.c_str());
  failure_ = cudaErrorLaunchFailure;
}

// The task stays at the head of the queue while it runs: until then it is not done.
void Executor::run_first(Stream& stream, Lock& lock) {
  Task& task = stream.queue.front();
  stream.is_running = true;
  run_without_lock(task, lock);
  stream.is_running = false;
  if (task.end != nullptr) pass(*task.end);
  stream.queue.pop_front();
  if (stream.is_destroyed) destroy_stream(&stream);
  changed_.notify_all();
}

}  // namespace teraio::testing::emulated_cuda
