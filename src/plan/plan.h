// Plan: what to move and when, in one iteration that repeats. A value; the file form is
// docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "trace/trace.h"

namespace teraio::plan {

enum class Action : uint8_t { kOffload, kPrefetch, kDrop };
enum class Tier : uint8_t { kSsd, kHost };

std::string_view to_string(Action action);
std::string_view to_string(Tier tier);

struct Migration {
  trace::TensorIndex tensor = 0;
  Action action = Action::kOffload;
  trace::OpIndex trigger_op =
      0;  // issued when op trigger_op - 1 has completed; 0: the iteration's start
  trace::OpIndex deadline_op = 0;  // the op that needs the effect
  Tier tier = Tier::kSsd;

  bool operator==(const Migration&) const = default;
};

struct Plan {
  std::string trace;  // the name of the trace that it was made for
  std::vector<Migration> migrations;

  bool operator==(const Plan&) const = default;
};

// What the run may use. An absent limit is the hardware's own.
struct Limits {
  std::optional<int64_t> device_budget_bytes;
  std::optional<int64_t> host_limit_bytes;
  std::optional<int64_t> write_budget_bytes;  // per iteration, to the ssd tier
  int64_t smallest_tensor_bytes = 0;          // smaller tensors stay on the device

  bool operator==(const Limits&) const = default;
};

// How messages name a migration of the plan: "migrations[7] (offload of tensor 12 at op 3, ssd)".
// The tensor's id is that of `trace`, -1 when the trace has no such tensor.
std::string describe(const Plan& plan, const trace::Trace& trace, size_t index);

// The ids of the file are those of `trace`; a plan for another trace is refused.
Result<Plan> read_plan(const std::filesystem::path& path, const trace::Trace& trace);
Status write_plan(const Plan& plan, const trace::Trace& trace, const std::filesystem::path& path);

}  // namespace teraio::plan
