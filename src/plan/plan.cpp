#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace teraio::plan {

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kOffload:
      return "offload";
    case Action::kPrefetch:
      return "prefetch";
    case Action::kDrop:
      return "drop";
    case Action::kDiscard:
      return "discard";
    case Action::kRecompute:
      return "recompute";
  }
  return "unknown";
}

std::string_view to_string(Tier tier) { return tier == Tier::kSsd ? "ssd" : "host"; }

std::string describe(const Plan& plan, const trace::Trace& trace, size_t index) {
  const Migration& migration = plan.migrations[index];
  const bool known = migration.tensor >= 0 && migration.tensor < trace.tensors.size();
  const std::string tier =
      uses_tier(migration.action) ? fmt::format(", {}", to_string(migration.tier)) : "";
  return fmt::format("migrations[{}] ({} of tensor {} at op {}{})", index,
                     to_string(migration.action), known ? trace.tensors[migration.tensor].id : -1,
                     migration.trigger_op, tier);
}

bool has_replays(const Plan& plan) {
  return std::ranges::any_of(plan.migrations,
                             [](const Migration& m) { return !uses_tier(m.action); });
}

}  // namespace teraio::plan
