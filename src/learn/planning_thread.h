// PlanningThread: makes plans beside the training, one after the other, and searches for a better
// one when it has nothing else to do.
//
// Threads: one thread at a time calls it, under the lock of its owner, except for has_made() and
// work(), which any thread may call. Plans are made on the planning thread, which runs at a low
// priority, without that lock. Where the system refuses a thread, and without `in_background`,
// request() and search() do the work themselves.
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
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"
#include "iteration/profile.h"
#include "iteration/schedule.h"
#include "plan/plan.h"

namespace teraio::learn {

using MakePlan = std::function<Result<plan::Plan>(const iteration::Profile&)>;

// What a search has found for an iteration. Both times are predicted for the same op times.
struct FoundPlan {
  plan::Plan plan;
  int64_t step_ns = 0;
  int64_t step_before_ns = 0;           // under the plan that the search was to improve
  std::function<void()> note_takeover;  // called when the plan takes over; may be empty
};

// Searches for a better plan than the one of a schedule. Ends soon once `stop` is true.
using ImprovePlan =
    std::function<Result<FoundPlan>(const iteration::Schedule&, const std::atomic<bool>& stop)>;

// What planning has done so far. A value.
struct PlanningWork {
  int64_t plans_made = 0;
  int64_t planning_ns = 0;    // CPU time
  int64_t search_ns = 0;      // CPU time of the searches that have ended
  bool is_planning = false;   // a plan that was asked for is not made yet
  bool is_searching = false;  // a better one is being searched for
};

class PlanningThread {
 public:
  // `in_background`: plans are made on a thread, which starts with the first request. An empty
  // `improve_plan`: search() is not called.
  PlanningThread(MakePlan make_plan, ImprovePlan improve_plan, bool in_background);
  // As stop().
  ~PlanningThread();
  PlanningThread(const PlanningThread&) = delete;
  PlanningThread& operator=(const PlanningThread&) = delete;

  using MadeSchedule = std::shared_ptr<const iteration::Schedule>;
  struct Made {
    int64_t ticket = 0;  // as request() returned it
    Result<MadeSchedule> schedule;
  };
  struct Found {
    FoundPlan found;
    MadeSchedule schedule;  // with the plan
  };

  // Asks for a plan for the profile that `profile` returns when its turn has come. Does not wait
  // for it in the background. A search waits until the plan is made, and begins anew then. Tickets
  // begin with 1.
  int64_t request(std::function<iteration::Profile()> profile);
  // True: take_made() returns something.
  bool has_made() const { return has_made_.load(std::memory_order_acquire); }
  // The plans since the last call, in the order of the requests.
  std::vector<Made> take_made();

  // Searches for a better plan than the one of the schedule, instead of an earlier search.
  void search(MadeSchedule schedule);
  void end_search();  // without a result
  // What the search has found; once. Nothing: it goes on, or has failed.
  std::optional<Found> take_found();

  // Makes no plan from now on. Waits for the one that is being made, and ends the search.
  void stop();

  PlanningWork work() const;

 private:
  struct Request {
    int64_t ticket = 0;
    std::function<iteration::Profile()> profile;
  };

  struct Counts {
    std::atomic<int64_t> unmade = 0;
    std::atomic<int64_t> made = 0;
    std::atomic<int64_t> planning_ns = 0;
    std::atomic<int64_t> search_ns = 0;
    std::atomic<bool> is_searching = false;
  };

  void run();
  void make(const Request& request);
  Result<MadeSchedule> schedule_for(const Request& request) const;
  void improve(const MadeSchedule& schedule);
  std::optional<Found> better_than(const MadeSchedule& schedule) const;
  bool is_running_in_background();

  const MakePlan make_plan_;
  const ImprovePlan improve_plan_;
  bool in_background_;
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable is_requested_;
  std::deque<Request> requests_;
  std::vector<Made> made_;
  MadeSchedule searched_;  // to be improved; null: nothing is
  std::optional<Found> found_;
  bool is_stopped_ = false;
  int64_t last_ticket_ = 0;
  std::atomic<bool> stops_search_ = false;
  std::atomic<bool> has_made_ = false;
  Counts counts_;
};

}  // namespace teraio::learn
