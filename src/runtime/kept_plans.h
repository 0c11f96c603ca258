// KeptPlans: the plans that searches have found, in a folder of the user's cache, for later runs.
//
// A plan file per program, machine and options. Its name has the trace (its ops and sizes), a hash
// of the options, and the rates and capacities, which may differ a little from run to run; whether
// a plan fits is checked when it is read.
//
// No failure concerns the run: an entry that cannot be used is removed, and that is logged for
// people who want to know (level "info"). Threads: one at a time. Several processes may use the
// same folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/status.h"
#include "base/units.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "trace/trace.h"

namespace teraio::runtime {

// What a plan is for. Refers to its arguments.
struct KeptPlanUse {
  const trace::Trace& trace;  // recorded
  const hardware::Hardware& hardware;
  const plan::Limits& limits;
  planner::Recompute recompute;
};

class KeptPlans {
 public:
  explicit KeptPlans(const std::filesystem::path& cache_directory,
                     int64_t total_bytes_max = 64 * kMiB)
      : folder_(cache_directory / "plans"), total_bytes_max_(total_bytes_max) {}

  // Returns the plan that is kept for this use; it is legal. Nothing: there is none.
  std::optional<plan::Plan> find(const KeptPlanUse& use) const;
  // Keeps a plan instead of the one before. Removes those that no run has used for 90 days, and
  // the oldest ones beyond `total_bytes_max`.
  void keep(const plan::Plan& plan, const KeptPlanUse& use) const;

  // The file of the plan: the one that is there, or else the one that keep() makes.
  std::filesystem::path path_for(const KeptPlanUse& use) const;

 private:
  Result<plan::Plan> read(const std::filesystem::path& path, const KeptPlanUse& use) const;
  Status check_entry(const std::filesystem::path& path) const;
  bool is_too_old(const std::filesystem::directory_entry& entry) const;
  void trim() const;

  const std::filesystem::path folder_;
  const int64_t total_bytes_max_;
};

}  // namespace teraio::runtime
