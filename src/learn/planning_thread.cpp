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

PlanningThread::PlanningThread(MakePlan make_plan, ImprovePlan improve_plan, bool in_background)
    : make_plan_(std::move(make_plan)),
      improve_plan_(std::move(improve_plan)),
      in_background_(in_background) {}

PlanningThread::~PlanningThread() { stop(); }

void PlanningThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    stops_search_ = true;
    counts_.is_searching = false;
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
    counts_.unmade.fetch_add(1, std::memory_order_relaxed);
    if (waits) requests_.push_back(request);
    stops_search_ = true;
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
    is_requested_.wait(
        lock, [this] { return is_stopped_ || !requests_.empty() || searched_ != nullptr; });
    if (is_stopped_) return;
    const MadeSchedule searched = searched_;
    std::optional<Request> request;
    if (!requests_.empty()) {
      request = std::move(requests_.front());
      requests_.pop_front();
    } else {
      stops_search_ = false;
    }
    lock.unlock();
    if (request)
      make(*request);
    else
      improve(searched);
    lock.lock();
  }
}

void PlanningThread::search(MadeSchedule schedule) {
  const bool waits = is_running_in_background();
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    found_.reset();
    searched_ = schedule;
    stops_search_ = waits;
    counts_.is_searching = true;
  }
  if (waits)
    is_requested_.notify_one();
  else
    improve(schedule);
}

void PlanningThread::end_search() {
  const std::lock_guard lock(mutex_);
  searched_.reset();
  found_.reset();
  stops_search_ = true;
  counts_.is_searching = false;
}

// A search that a request or another search has stopped counts for nothing.
void PlanningThread::improve(const MadeSchedule& schedule) {
  const int64_t start_ns = thread_cpu_ns();
  std::optional<Found> found = better_than(schedule);
  counts_.search_ns.fetch_add(thread_cpu_ns() - start_ns, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (stops_search_) return;
  found_ = std::move(found);
  searched_.reset();
  counts_.is_searching = false;
}

std::optional<PlanningThread::Found> PlanningThread::better_than(
    const MadeSchedule& schedule) const {
  try {
    Result<FoundPlan> found = improve_plan_(*schedule, stops_search_);
    if (!found.ok()) return std::nullopt;
    auto better = std::make_shared<const iteration::Schedule>(schedule->profile(), found->plan);
    return Found{std::move(*found), std::move(better)};
  } catch (const std::exception&) {  // a bug, or no memory: the plan before holds
    return std::nullopt;
  }
}

std::optional<PlanningThread::Found> PlanningThread::take_found() {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, std::nullopt);
}

void PlanningThread::make(const Request& request) {
  const int64_t start_ns = thread_cpu_ns();
  Made made = {request.ticket, schedule_for(request)};
  counts_.planning_ns.fetch_add(thread_cpu_ns() - start_ns, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  made_.push_back(std::move(made));
  counts_.unmade.fetch_sub(1, std::memory_order_relaxed);
  has_made_.store(true, std::memory_order_release);
  counts_.made.fetch_add(1, std::memory_order_release);  // whoever sees the count can take the plan
}

Result<std::shared_ptr<const iteration::Schedule>> PlanningThread::schedule_for(
    const Request& request) const {
  try {
    iteration::Profile profile = request.profile();
    Result<plan::Plan> plan = make_plan_(profile);
    if (!plan.ok()) return plan.status();
    return std::make_shared<const iteration::Schedule>(std::move(profile), std::move(*plan));
  } catch (const std::exception& error) {  // a bug, or no memory: the training goes on
    return Status(ErrorCode::kInternal, error.what());
  }
}

PlanningWork PlanningThread::work() const {
  return {.plans_made = counts_.made.load(std::memory_order_relaxed),
          .planning_ns = counts_.planning_ns.load(std::memory_order_relaxed),
          .search_ns = counts_.search_ns.load(std::memory_order_relaxed),
          .is_planning = counts_.unmade.load(std::memory_order_relaxed) > 0,
          .is_searching = counts_.is_searching.load(std::memory_order_acquire)};
}

std::vector<PlanningThread::Made> PlanningThread::take_made() {
  const std::lock_guard lock(mutex_);
  has_made_.store(false, std::memory_order_relaxed);
  return std::exchange(made_, {});
}

}  // namespace teraio::learn
