// Plan: the migrations and the replays of one iteration, which repeats. A value type; its file
// format is in docs/formats.md. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "trace/trace.h"

namespace teraio::plan {

// kDiscard releases the device memory of a tensor without a copy. kRecompute runs the op that made
// it (its producer) again, which restores the same bytes: a replay. These two use no tier.
enum class Action : uint8_t { kOffload, kPrefetch, kDrop, kDiscard, kRecompute };
enum class Tier : uint8_t { kSsd, kHost };

std::string_view to_string(Action action);
std::string_view to_string(Tier tier);

// Whether the action moves bytes or releases them while a tier has a copy.
constexpr bool uses_tier(Action action) {
  return action != Action::kDiscard && action != Action::kRecompute;
}

// Whether the tensor is not on the device after the action.
constexpr bool leaves_device(Action action) {
  return action != Action::kPrefetch && action != Action::kRecompute;
}

// One action of a plan. Those of one op are carried out in the order of the plan. A recompute takes
// place just before its deadline_op; what follows it in the plan and is issued at that op waits for
// the replay.
struct Migration {
  trace::TensorIndex tensor = 0;
  Action action = Action::kOffload;
  // The migration is issued when op trigger_op - 1 has completed; at the start of the iteration for
  // 0.
  trace::OpIndex trigger_op = 0;
  trace::OpIndex deadline_op = 0;  // the op that needs the effect of the migration
  Tier tier = Tier::kSsd;          // without a meaning unless uses_tier(action)

  bool operator==(const Migration&) const = default;
};

struct Plan {
  std::string trace;  // the name of the trace that the plan is for
  std::vector<Migration> migrations;

  bool operator==(const Plan&) const = default;
};

// Whether the plan discards or recomputes a tensor.
bool has_replays(const Plan& plan);

// What a run may use. The hardware is the limit where a field is absent; writes are then unlimited.
struct Limits {
  std::optional<int64_t> device_budget_bytes;
  std::optional<int64_t> host_limit_bytes;
  std::optional<int64_t> write_budget_bytes;  // per iteration, to the ssd tier
  int64_t smallest_tensor_bytes = 0;          // smaller tensors stay on the device

  bool operator==(const Limits&) const = default;
};

// Describes a migration for messages: "migrations[7] (offload of tensor 12 at op 3, ssd)",
// "migrations[8] (discard of tensor 12 at op 3)". The id is that of the tensor in `trace`, or -1
// when the trace has no such tensor.
std::string describe(const Plan& plan, const trace::Trace& trace, size_t index);

// Read and write plan files, which refer to tensors by their ids in `trace`. A failure names the
// file, the field and what was expected; read_plan() fails for a plan that was made for a trace of
// another name, unless `is_accepted` accepts that name. write_plan() replaces the file atomically;
// it writes teraio-plan/2 when has_replays(plan), else teraio-plan/1.
Result<Plan> read_plan(const std::filesystem::path& path, const trace::Trace& trace,
                       const std::function<bool(const std::string&)>& is_accepted = {});
// Returns the name of the trace that the plan in a file was made for.
Result<std::string> read_trace_name(const std::filesystem::path& path);
Status write_plan(const Plan& plan, const trace::Trace& trace, const std::filesystem::path& path);

}  // namespace teraio::plan
