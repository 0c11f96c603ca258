// What the simulator predicts for the iterations of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "hardware/hardware.h"
#include "iteration/profile.h"
#include "plan/plan.h"

namespace teraio::runtime {

// Of one iteration under its plan.
struct Prediction {
  int64_t ideal_ns = 0;               // with an unlimited device budget
  int64_t step_ns = 0;                // under the plan; 0 if its simulation failed
  iteration::FlopsByPrecision flops;  // Profile::flops
  bool is_kept = false;               // the plan is one of KeptPlans
  plan::Limits limits;                // the limits that the plan was made for
  hardware::Hardware hardware;        // and the rates
};

// A pure function. Any thread.
Prediction predict(const iteration::Profile& profile, const hardware::Hardware& hardware,
                   const plan::Limits& limits, const plan::Plan& plan);

// The newest predictions by the names of their traces. Threads: any.
class Predictions {
 public:
  static constexpr size_t kCountMax = 64;

  // Replaces an earlier prediction for the trace.
  void keep(const std::string& trace_name, Prediction prediction);
  // Returns nothing for a trace that has none, or whose prediction is older than the newest
  // kCountMax.
  std::optional<Prediction> find(const std::string& trace_name) const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, Prediction>> predictions_;  // newest last
};

}  // namespace teraio::runtime
