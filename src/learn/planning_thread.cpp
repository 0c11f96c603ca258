#include "learn/planning_thread.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <exception>
#include <utility>

#include "base/thread.h"

namespace teraio::learn {
namespace {

constexpr int kNiceness = 10;  // the training's threads go first

int64_t thread_cpu_ns() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

PlanningThread::PlanningThread(MakePlan make_plan, bool in_background)
    : make_plan_(std::move(make_plan)), in_background_(in_background) {}

PlanningThread::~PlanningThread() { stop(); }

void PlanningThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  is_requested_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool PlanningThread::is_running_in_background() {
  if (!in_background_ || thread_.joinable()) return in_background_;
  Result<std::thread> thread = start_thread([this] { run(); });
  in_background_ = thread.ok();
  if (thread.ok()) thread_ = std::move(*thread);
  return in_background_;
}

int64_t PlanningThread::request(std::function<iteration::Profile()> profile) {
  const Request request = {++last_ticket_, std::move(profile)};
  const bool waits = is_running_in_background();
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return last_ticket_;
    unmade_count_.fetch_add(1, std::memory_order_relaxed);
    if (waits) requests_.push_back(request);
  }
  if (waits)
    is_requested_.notify_one();
  else
    make(request);
  return last_ticket_;
}

void PlanningThread::run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
  std::unique_lock lock(mutex_);
  while (true) {
    is_requested_.wait(lock, [this] { return is_stopped_ || !requests_.empty(); });
    if (is_stopped_) return;
    const Request request = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    make(request);
    lock.lock();
  }
}

void PlanningThread::make(const Request& request) {
  const int64_t start_ns = thread_cpu_ns();
  Made made = {request.ticket, schedule_for(request.profile())};
  planning_ns_.fetch_add(thread_cpu_ns() - start_ns, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  made_.push_back(std::move(made));
  unmade_count_.fetch_sub(1, std::memory_order_relaxed);
  has_made_.store(true, std::memory_order_release);
  made_count_.fetch_add(1, std::memory_order_release);  // whoever sees the count can take the plan
}

Result<std::shared_ptr<const iteration::Schedule>> PlanningThread::schedule_for(
    iteration::Profile profile) const {
  try {
    Result<plan::Plan> plan = make_plan_(profile);
    if (!plan.ok()) return plan.status();
    return std::make_shared<const iteration::Schedule>(std::move(profile), std::move(*plan));
  } catch (const std::exception& error) {  // a bug, or no memory: the training goes on
    return Status(ErrorCode::kInternal, error.what());
  }
}

std::vector<PlanningThread::Made> PlanningThread::take_made() {
  const std::lock_guard lock(mutex_);
  has_made_.store(false, std::memory_order_relaxed);
  return std::exchange(made_, {});
}

}  // namespace teraio::learn
