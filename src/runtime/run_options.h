// RunOptions: what the user chooses for a run, in the units of the core.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/planner.h"

namespace teraio::runtime {

// A value.
struct RunOptions {
  enum class Effort : uint8_t {
    kFast,  // plans that are made with planner::Effort::kFast
    kAuto,  // the same, and in the background a search for better ones where cores are idle
    kBest,  // the same on any machine, from a given plan, and where nothing is in the background
  };

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
  Effort effort = Effort::kAuto;
  // Which tensors plans may discard, to be made again by a replay.
  planner::Recompute recompute = planner::PlannerOptions().recompute;
  bool verify_replays = false;  // compare what a replay makes with what was discarded
  int64_t io_timeout_ns = 0;    // for each request of a drive, as for the ssd store; 0: no limit
  bool checksum = false;        // verify every chunk that is read from a drive
  bool evict_after_every_op = false;    // for tests; also poisons released memory
  bool discard_after_every_op = false;  // the same, of what can be made again
  // The steps that a timeline records, as for engine::TimelineSteps; none: it records nothing.
  std::optional<std::pair<int64_t, int64_t>> timeline_steps;
  int64_t smallest_tensor_bytes = 64 * kKiB;         // smaller tensors stay resident
  std::function<void(const std::string&)> progress;  // opening a run calls it with lines for people
};

// Whether tensors may be discarded: by the run's own plans, by the given one, or by a test.
inline bool may_discard(const RunOptions& options) {
  return options.recompute != planner::Recompute::kOff || options.plan_path ||
         options.discard_after_every_op;
}

}  // namespace teraio::runtime
