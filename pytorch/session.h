// Session: a device with a budget, storage tiers, the runtime that uses them, and PyTorch's hooks
// while the session is on.
//
// Threads: one thread at a time may call open(), start(), stop(), discard() and is_running(), and
// destroy the session; any thread may call the rest. The runtime's lock comes before mutex_. No
// code waits for the GIL while it holds either of them, so that a caller may hold the GIL.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "active_session.h"
#include "aliases.h"
#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "device_backend.h"
#include "engine/drive_rate_monitor.h"
#include "engine/runtime.h"
#include "engine/timeline.h"
#include "given_plan.h"
#include "hardware/hardware.h"
#include "op_origins.h"
#include "op_replay.h"
#include "planner/planner.h"
#include "storage/tier_store.h"
#include "tried_ops.h"

namespace teraio::pytorch {

struct SessionOptions {
  std::string device = "cpu";       // as for find_backend()
  int64_t device_budget_bytes = 0;  // 0: the device's default, which the CPU does not have
  std::vector<std::filesystem::path> ssd_directories;  // this rank's; empty: no SSD tier
  // The directories of each of the machine's ranks (processes, one per device), when there are
  // several. The planner then uses this rank's share of each drive.
  std::vector<std::vector<std::filesystem::path>> rank_directories;
  int64_t ssd_capacity_bytes = 0;  // over all directories; 0: chosen from budget and free space
  // The host memory for offloaded tensors and for staging between drives and a GPU. 0: no host
  // tier, and as much staging as the device needs.
  int64_t host_limit_bytes = 0;
  // The bytes that plans may write to the drives: per `write_budget_period_seconds`, or per
  // iteration when that is 0.
  std::optional<int64_t> write_budget_bytes;
  int64_t write_budget_period_seconds = 0;
  std::filesystem::path cache_directory;           // keeps the measurements of drives
  std::optional<std::filesystem::path> plan_path;  // the plan to execute; none: plans are made
  bool is_planned = true;                          // false: all migrations are on demand
  bool plans_in_background = true;  // false: each plan is made before the next iteration begins
  // Which tensors plans may discard, to be made again by a replay.
  planner::Recompute recompute = planner::Recompute::kOff;
  bool verify_replays = false;  // compare what a replay makes with what was discarded
  int64_t io_timeout_ns = 0;    // for each request of a drive, as for the ssd store; 0: no limit
  bool checksum = false;        // verify every chunk that is read from a drive
  bool evict_after_every_op = false;    // for tests; also poisons released memory
  bool discard_after_every_op = false;  // the same, of what can be made again
  // The steps that a timeline records, as for engine::TimelineSteps; none: it records nothing.
  std::optional<std::pair<int64_t, int64_t>> timeline_steps;
  int64_t smallest_tensor_bytes = 64 * kKiB;         // smaller tensors stay resident
  bool allow_ram_directory = false;                  // for tests
  std::filesystem::path system_root = "/";           // has proc and sys; another one for tests
  std::function<void(const std::string&)> progress;  // open() calls it with lines for people
};

// What the simulator predicts for one iteration under the plan that runs. A time is 0 if its
// simulation failed.
struct Prediction {
  int64_t ideal_ns = 0;            // with an unlimited device budget
  int64_t step_ns = 0;             // under the plan
  int64_t natural_peak_bytes = 0;  // with an unlimited device budget
  plan::Limits limits;             // the limits that the plan was made for
  hardware::Hardware hardware;     // and the rates
};

// A drive that several ranks may share.
struct DriveShare {
  std::filesystem::path directory;
  int32_t rank_count = 1;
  hardware::Drive drive;  // one rank's share of its capacity and rates
};

// Returns the size in bytes above which a list op runs in pieces.
int64_t list_op_piece_bytes(int64_t device_budget_bytes);

class Session {
 public:
  // Opens the device and the tiers, and measures the drives that have no cached measurement, which
  // takes seconds. PyTorch is not changed before start(). The message of a failure names the
  // option, file or device and what was expected.
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes PyTorch allocate through the session and observes the ops of the calling thread and of
  // the autograd threads that work for it; others call observe_this_thread(). Fails with
  // kInvalidArgument when a session is active in the process, or when this one has been started
  // before.
  Status start();
  // From now on, ops move storages that are older than the session into its memory. Call it after
  // start(), when no op that began before it uses them.
  void begin_adoption();
  // Returns the storages that the session would move and that other code can reach by address (see
  // aliases.h). Call it before start(), with the GIL.
  Aliases find_aliases() const;
  // Lifts the device budget, restores all tensors, turns the hooks off and closes the tiers. Ops
  // that other threads begin meanwhile wait until the tensors are back. Has no effect when the
  // session does not run. Returns kOutOfMemory and goes on if the system has too little memory for
  // all tensors, and kInterrupted and goes on if the user has interrupted a replay; stop() may be
  // called again. After other failures the hooks are off, and the tiers keep the bytes that could
  // not be restored. kInterrupted: the user has ended the wait for a drive that hangs. What such a
  // drive may still use (memory, files, threads) is kept until the process ends. Call it on the
  // thread that called start(), without the GIL, because it waits for I/O.
  Status stop();
  // Stops the session without restoring tensors, in a process that is exiting. The bytes of
  // offloaded tensors are lost, and an access to them raises the error of TorchStorageSwap. Does
  // not wait for a drive that hangs. Has no effect when the session does not run.
  void discard();
  bool is_running() const;

  engine::Runtime& runtime() { return *runtime_; }
  // Before every optimizer step: the backward passes are over.
  void begin_step();
  // After every optimizer step.
  void end_step();
  // Writes the timeline (engine/timeline_file.h) of this process, which people know as
  // `process_name`. Returns the indices of the whole steps in it. Fails with kInvalidArgument when
  // the session records none, or has recorded nothing yet.
  Result<std::vector<int64_t>> save_timeline(const std::filesystem::path& path,
                                             const std::string& process_name) const;
  // Returns the counters of a tier, also after the session has ended. They are 0 without the tier.
  storage::TierCounters tier_counters(plan::Tier tier) const;
  // Returns the prediction for the plan that the run follows, or nothing when there is none yet.
  std::optional<Prediction> prediction() const;
  // Returns a lower bound on the step time of every plan for the current trace, in nanoseconds, or
  // 0 when there is no plan yet: of plans with replays, too, where the session may have them. Each
  // call computes the bound anew.
  int64_t bound_ns() const;
  // Returns what plans assume about the machine: rates as measured, in the run too.
  hardware::Hardware hardware() const;
  // Returns the options, with the device budget that was chosen if it was 0.
  const SessionOptions& options() const { return options_; }
  // Returns one entry per drive of this rank, as open() measured it. The list does not change: when
  // a drive's rate changes during the run, later plans use the new rate, and this list keeps the
  // old one.
  const std::vector<DriveShare>& drive_shares() const { return drive_shares_; }
  // Returns the measured rates of the link between host memory and the device; nothing for a device
  // whose memory the host addresses.
  std::optional<Rates> device_link() const;

 private:
  explicit Session(SessionOptions options) : options_(std::move(options)) {}
  Status open_device();
  Status open_tiers();
  Status measure_device_link();
  Status measure_host_tier(const device::HostMemory& pool);
  void create_runtime();
  engine::Timeline* make_timeline();  // null: the options want none
  bool has_replays() const;
  Status check_room_to_restore() const;
  Status replay_discarded();
  void set_budget(int64_t size_bytes);
  void take_hooks_off();
  void keep_learned_rates() const;
  void close_stores();
  void leave_machine();
  std::optional<std::string> machine_change();
  Result<plan::Plan> make_plan(const engine::Profile& profile);
  plan::Limits limits_for(const engine::Profile& profile, const hardware::Hardware& hardware) const;
  Result<plan::Plan> plan_within(const trace::Trace& trace, const hardware::Hardware& hardware,
                                 plan::Limits limits) const;
  Status open_given_plan();
  Result<plan::Plan> plan_for(const trace::Trace& trace, const hardware::Hardware& hardware,
                              const plan::Limits& limits);
  static Prediction predict(const engine::Profile& profile, const hardware::Hardware& hardware,
                            const plan::Limits& limits, const plan::Plan& plan);

  // What storages need after the session has ended. The runtime's shared_ptrs own it jointly.
  struct Machine {
    SteadyClock clock;
    std::unique_ptr<device::Device> device;
    std::array<std::unique_ptr<storage::TierStore>, engine::kTierCount> stores;
    std::unique_ptr<engine::StorageSwap> swap;
    std::optional<TorchReplayer> replayer;
    std::unique_ptr<engine::Timeline> timeline;
    TriedOps tried_ops;
    OpOrigins origins;
    std::unique_ptr<engine::Runtime> runtime;  // last member, so destroyed first
  };

  SessionOptions options_;
  DeviceBackend* backend_ = nullptr;
  hardware::Hardware hardware_;
  std::vector<DriveShare> drive_shares_;
  std::optional<engine::DriveRateMonitor> drive_rate_monitor_;
  std::optional<GivenPlan> given_plan_;  // of the thread that makes plans
  std::shared_ptr<Machine> machine_;
  std::shared_ptr<engine::Runtime> runtime_;  // shares the machine's ownership
  std::shared_ptr<ActiveSession> active_;
  // Guards what follows, the pointers to the stores while they close, and hardware_, which another
  // thread makes plans for.
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, Prediction>> predictions_;  // by trace, newest last
  // The counters of stores that have been closed.
  std::array<storage::TierCounters, engine::kTierCount> last_tier_counters_;
};

}  // namespace teraio::pytorch
