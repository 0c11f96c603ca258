// TrainingRun: a device with a budget, storage tiers, and the runtime that uses them, for one
// training program. It decides what plans may use, has them made, and predicts their steps. The
// hooks of the framework are its owner's.
//
// Threads: one thread at a time may call open(), the functions that end the run, and the
// destructor; any thread may call the rest. The runtime's lock comes before those of this object.
// No code waits for a lock of the framework while it holds any of them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/rates.h"
#include "base/status.h"
#include "engine/engine_options.h"
#include "hardware/hardware.h"
#include "learn/drive_rate_monitor.h"
#include "plan/plan.h"
#include "runtime/framework.h"
#include "runtime/prediction.h"
#include "runtime/run_drives.h"
#include "runtime/run_options.h"
#include "runtime/run_planner.h"
#include "runtime/runtime.h"
#include "storage/tier_store.h"

namespace teraio::runtime {

class TrainingRun {
 public:
  // Opens the device and the tiers, and measures the drives that have no cached measurement, which
  // takes seconds. The message of a failure names the option, file or device and what was expected.
  static Result<std::unique_ptr<TrainingRun>> open(RunOptions options,
                                                   std::unique_ptr<Framework> framework);
  // Requires that the run has ended, or that no tensor is left.
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // The result keeps the device, the tiers and the framework alive: tensors may outlive the run.
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  // Returns the options, with the device budget that was chosen if it was 0.
  const RunOptions& options() const { return options_; }

  // --- The end ---
  // In this order: prepare_stop() while the hooks are on, stop() and close(); or discard() and
  // close().

  // Makes all discarded tensors again. Fails with kOutOfMemory, and the run goes on, if the system
  // has too little memory for all tensors; with kInterrupted, and the run goes on, if the user has
  // interrupted a replay. It may be called again then.
  Status prepare_stop();
  // Lifts the device budget and restores all tensors, as Runtime::stop() does.
  Status stop();
  // Ends the run in a process that exits, as Runtime::discard() does.
  void discard();
  // Gives the room on the drives back. Where a tier still has the only copy of a tensor, the tiers
  // stay until the last tensor is gone; what a drive that does not answer may still use is kept
  // until the process ends.
  void close();
  // Keeps everything until the process ends: a forked child has none of the threads of the tiers,
  // and to join them would never end.
  void leak();

  // --- What is known of it, also after its end ---

  // Returns the counters of a tier. They are 0 without the tier.
  storage::TierCounters tier_counters(plan::Tier tier) const;
  // Returns the prediction for the plan that the run follows, or nothing when there is none yet.
  std::optional<Prediction> prediction() const;
  // Returns a lower bound on the step time of every plan for the current trace, in nanoseconds, or
  // 0 when there is no plan yet: of plans with replays, too, where the run may have them. Each call
  // computes the bound anew.
  int64_t bound_ns() const;
  // Returns what plans assume about the machine: rates as measured, in the run too.
  hardware::Hardware hardware() const;
  // Returns one entry per drive of this rank, as open() measured it. The list does not change: when
  // a drive's rate changes during the run, later plans use the new rate, and this list keeps the
  // old one.
  const std::vector<DriveShare>& drive_shares() const { return drive_shares_; }
  // Returns the measured rates of the link between host memory and the device; nothing for a device
  // whose memory the host addresses.
  std::optional<Rates> device_link() const;
  // Writes the timeline (engine/timeline_file.h) of this process, which people know as
  // `process_name`. Returns the indices of the whole steps in it. Fails with kInvalidArgument when
  // the run records none, or has recorded nothing yet.
  Result<std::vector<int64_t>> save_timeline(const std::filesystem::path& path,
                                             const std::string& process_name) const;

 private:
  struct Machine;

  TrainingRun(RunOptions options, std::unique_ptr<Framework> framework);
  Status open_device();
  Status open_tiers();
  void create_runtime();
  engine::EngineOptions engine_options();
  RuntimeOptions runtime_options();
  Result<plan::Plan> make_plan(const iteration::Profile& profile);
  Result<learn::FoundPlan> improve_plan(const iteration::Schedule& schedule,
                                        const std::atomic<bool>& stop);
  std::optional<std::string> machine_change();
  void note_wrong_prediction();
  Status check_room_to_restore() const;
  Status replay_discarded();
  void set_budget(int64_t size_bytes);
  void close_stores();

  RunOptions options_;
  RunPlanner planner_;
  std::vector<DriveShare> drive_shares_;
  std::optional<learn::DriveRateMonitor> drive_rate_monitor_;
  std::shared_ptr<Machine> machine_;
  std::shared_ptr<Runtime> runtime_;  // shares the machine's ownership
  // Guards what follows, and the pointers to the stores while they close.
  mutable std::mutex mutex_;
  hardware::Hardware hardware_;
  // The counters of stores that have been closed.
  std::array<storage::TierCounters, engine::kTierCount> last_tier_counters_;
};

}  // namespace teraio::runtime
