// Session: a device with a budget, storage tiers, the runtime that uses them, and PyTorch's hooks
// while the session is on.
//
// Threads: one thread at a time may start and stop the session; any thread may call the rest.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "active_session.h"
#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "device_backend.h"
#include "engine/drive_rate_monitor.h"
#include "engine/runtime.h"
#include "hardware/hardware.h"
#include "storage/tier_store.h"

namespace teraio::pytorch {

struct SessionOptions {
  std::string device = "cpu";       // as for find_backend
  int64_t device_budget_bytes = 0;  // 0: the device's default
  std::vector<std::filesystem::path> ssd_directories;
  // The directories of each of the machine's ranks (processes, one per device), when there are
  // several. The planner then uses this rank's share of each drive.
  std::vector<std::vector<std::filesystem::path>> rank_directories;
  int64_t ssd_capacity_bytes = 0;  // over all directories; 0: chosen from budget and free space
  int64_t host_limit_bytes = 0;    // staging included; 0: no host tier
  // The bytes that plans may write to the drives: per `write_budget_period_seconds`, or per
  // iteration when that is 0.
  std::optional<int64_t> write_budget_bytes;
  int64_t write_budget_period_seconds = 0;
  std::filesystem::path cache_directory;  // for measured drives
  std::optional<std::filesystem::path> plan_path;
  bool is_planned = true;             // false: on demand only
  bool checksum = false;              // of every chunk on the drives
  bool evict_after_every_op = false;  // for tests; also poisons released memory
  int64_t smallest_tensor_bytes = 64 * kKiB;
  bool allow_ram_directory = false;  // tests
  std::function<void(const std::string&)> progress;
};

// What the planner and the simulator predict for the plan that runs.
struct Prediction {
  int64_t ideal_ns = 0;
  int64_t step_ns = 0;
  int64_t natural_peak_bytes = 0;  // with an unlimited budget
  plan::Limits limits;             // the limits that the plan was made for
};

// A drive that several ranks may share.
struct DriveShare {
  std::filesystem::path directory;
  int32_t rank_count = 1;
  hardware::Drive drive;  // one rank's share of it
};

// Returns the size in bytes above which a list op runs in pieces.
int64_t list_op_piece_bytes(int64_t device_budget_bytes);

class Session {
 public:
  // Opens the tiers and measures the drives that have no cached measurement.
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Turns the hooks on in the calling thread and in the threads that it starts. Fails when another
  // session is active.
  Status start();
  // Restores all tensors and turns the hooks off. The session cannot be started again.
  Status stop();
  // Stops the session in a process that is exiting, without restoring tensors. Offloaded tensors
  // are lost, and an access to one raises an error that says so.
  void discard();
  bool is_running() const;

  engine::Runtime& runtime() { return *runtime_; }
  storage::TierCounters tier_counters(plan::Tier tier) const;
  std::optional<Prediction> prediction() const;
  // Returns a step time that no plan for the current trace can beat. Each call computes it, which
  // takes a moment.
  int64_t bound_ns() const;
  const SessionOptions& options() const { return options_; }
  // Returns the shares that the first plan used.
  const std::vector<DriveShare>& drive_shares() const { return drive_shares_; }

 private:
  explicit Session(SessionOptions options) : options_(std::move(options)) {}
  Status open_device();
  Status open_tiers();
  Status measure_device_link();
  void create_runtime();
  void take_hooks_off();
  void close_stores();
  std::optional<std::string> machine_change();
  Result<plan::Plan> make_plan(const engine::Profile& profile);
  plan::Limits limits_for(const engine::Profile& profile) const;
  Result<plan::Plan> plan_within(const trace::Trace& trace, plan::Limits limits) const;
  Result<plan::Plan> plan_of_file(const trace::Trace& trace, const plan::Limits& limits) const;
  Prediction predict(const engine::Profile& profile, const plan::Limits& limits,
                     const plan::Plan& plan) const;

  // What storages may need after the session has ended. The last user of the runtime owns it.
  struct Machine {
    SteadyClock clock;
    std::unique_ptr<device::Device> device;
    std::array<std::unique_ptr<storage::TierStore>, engine::kTierCount> stores;
    std::unique_ptr<engine::StorageSwap> swap;
    std::unique_ptr<engine::Runtime> runtime;  // last member, so destroyed first
  };

  SessionOptions options_;
  DeviceBackend* backend_ = nullptr;
  hardware::Hardware hardware_;
  std::vector<DriveShare> drive_shares_;
  std::optional<engine::DriveRateMonitor> drive_rate_monitor_;
  std::shared_ptr<Machine> machine_;
  std::shared_ptr<engine::Runtime> runtime_;  // shares the machine's ownership
  std::unique_ptr<ActiveSession> active_;
  mutable std::mutex mutex_;  // guards what follows, and the stores while they close
  std::optional<Prediction> prediction_;
  std::array<storage::TierCounters, engine::kTierCount>
      last_tier_counters_;  // of stores that have been closed
};

}  // namespace teraio::pytorch
