// PlanningThread: makes plans beside the training, one after the other.
//
// Threads: one thread at a time calls it, under the lock of its owner, except for has_made(),
// is_planning() and planning_ns(), which any thread may call. make_plan is called on the planning
// thread, which runs at a low priority, without that lock. Where the system refuses a thread, and
// without `in_background`, request() makes the plan itself.
//
// Ownership: what a request refers to has to last. Failure: that of make_plan is the result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "iteration/profile.h"
#include "iteration/schedule.h"
#include "plan/plan.h"

namespace teraio::learn {

using MakePlan = std::function<Result<plan::Plan>(const iteration::Profile&)>;

class PlanningThread {
 public:
  // `in_background`: plans are made on a thread, which starts with the first request.
  PlanningThread(MakePlan make_plan, bool in_background);
  // Waits for the plan that is being made, and makes no other.
  ~PlanningThread();
  PlanningThread(const PlanningThread&) = delete;
  PlanningThread& operator=(const PlanningThread&) = delete;

  struct Made {
    int64_t ticket = 0;  // as request() returned it
    Result<std::shared_ptr<const iteration::Schedule>> schedule;
  };

  // Asks for a plan for the profile that `profile` returns when its turn has come. Does not wait
  // for it in the background. Tickets begin with 1.
  int64_t request(std::function<iteration::Profile()> profile);
  // True: take_made() returns something.
  bool has_made() const { return has_made_.load(std::memory_order_acquire); }
  // True: a plan that was asked for is not made yet.
  bool is_planning() const { return unmade_count_.load(std::memory_order_relaxed) > 0; }
  // The plans since the last call, in the order of the requests.
  std::vector<Made> take_made();
  // Makes no plan from now on. Waits for the one that is being made.
  void stop();

  int64_t made_count() const { return made_count_.load(std::memory_order_relaxed); }
  // The CPU time of all planning so far.
  int64_t planning_ns() const { return planning_ns_.load(std::memory_order_relaxed); }

 private:
  struct Request {
    int64_t ticket = 0;
    std::function<iteration::Profile()> profile;
  };

  void run();
  void make(const Request& request);
  Result<std::shared_ptr<const iteration::Schedule>> schedule_for(iteration::Profile profile) const;
  bool is_running_in_background();

  const MakePlan make_plan_;
  bool in_background_;
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable is_requested_;
  std::deque<Request> requests_;
  std::vector<Made> made_;
  bool is_stopped_ = false;
  int64_t last_ticket_ = 0;
  std::atomic<bool> has_made_ = false;
  std::atomic<int64_t> unmade_count_ = 0;
  std::atomic<int64_t> made_count_ = 0;
  std::atomic<int64_t> planning_ns_ = 0;
};

}  // namespace teraio::learn
