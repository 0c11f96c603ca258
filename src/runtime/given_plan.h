// GivenPlan: the plan file that a run is told to execute.
//
// Threads: one at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::runtime {

class GivenPlan {
 public:
  // Fails when the file cannot be read, or is for a trace that no run has recorded.
  static Result<GivenPlan> open(std::filesystem::path path);

  // Returns the plan of the file for the trace of an iteration. The file may be for other sizes of
  // the same ops, which is logged. Returns nothing when another plan is to be made: the plan does
  // not fit these sizes, or it exceeds the write budget, which is logged too; or the iteration runs
  // other ops, and another one has run those of the file. Fails when the file cannot be read, and
  // when it is for other ops and no iteration has run those before.
  Result<std::optional<plan::Plan>> plan_for(const trace::Trace& trace,
                                             const hardware::Hardware& hardware,
                                             const plan::Limits& limits);

 private:
  explicit GivenPlan(std::filesystem::path path) : path_(std::move(path)) {}

  Result<std::optional<plan::Plan>> for_other_sizes(plan::Plan plan, const trace::Trace& trace,
                                                    const hardware::Hardware& hardware,
                                                    const plan::Limits& limits);
  Result<std::optional<plan::Plan>> within_write_budget(plan::Plan plan, const trace::Trace& trace,
                                                        const hardware::Hardware& hardware,
                                                        const plan::Limits& limits) const;

  std::filesystem::path path_;
  bool is_used_ = false;
  bool is_told_ = false;  // that the sizes are others
};

}  // namespace teraio::runtime
