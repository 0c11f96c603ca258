#include <fmt/format.h>

#include <unordered_map>

#include "base/json_file.h"
#include "plan/plan.h"

namespace teraio::plan {
namespace {

constexpr std::string_view kFormat = "teraio-plan/1";
constexpr std::string_view kFormatWithReplays = "teraio-plan/2";

using Positions = std::unordered_map<int64_t, trace::TensorIndex>;

Positions positions_of(const trace::Trace& trace) {
  Positions positions;
  for (size_t i = 0; i < trace.tensors.size(); ++i)
    positions.emplace(trace.tensors[i].id, static_cast<trace::TensorIndex>(i));
  return positions;
}

// Reads the name of an enumerator whose value is between 0 and `last`.
template <typename Enum>
Enum read_name(const JsonNode& node, Enum last, std::string_view expected) {
  const std::string text = node.text();
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (to_string(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  node.fail(fmt::format("expected {}, found \"{}\"", expected, text));
  return last;
}

trace::OpIndex read_op_index(const JsonNode& node, const trace::Trace& trace) {
  const int64_t op = node.non_negative_integer();
  if (op < static_cast<int64_t>(trace.ops.size())) return static_cast<trace::OpIndex>(op);
  node.fail(fmt::format("expected one of the trace's {} ops, found {}", trace.ops.size(), op));
  return 0;
}

trace::TensorIndex read_tensor(const JsonNode& node, const Positions& positions) {
  const int64_t id = node.non_negative_integer();
  const auto found = positions.find(id);
  if (found != positions.end()) return found->second;
  node.fail(fmt::format("expected the id of a tensor of the trace, found {}", id));
  return 0;
}

Action read_action(const JsonNode& node, bool with_replays) {
  if (!with_replays) return read_name(node, Action::kDrop, "offload, prefetch or drop");
  return read_name(node, Action::kRecompute, "offload, prefetch, drop, discard or recompute");
}

Migration read_migration(const JsonNode& node, const trace::Trace& trace,
                         const Positions& positions, bool with_replays) {
  Migration migration;
  migration.tensor = read_tensor(node["tensor"], positions);
  migration.action = read_action(node["action"], with_replays);
  migration.trigger_op = read_op_index(node["trigger_op"], trace);
  migration.deadline_op = read_op_index(node["deadline_op"], trace);
  if (uses_tier(migration.action))
    migration.tier = read_name(node["tier"], Tier::kHost, "ssd or host");
  return migration;
}

nlohmann::ordered_json to_json(const Migration& migration, const trace::Trace& trace) {
  nlohmann::ordered_json json = {{"tensor", trace.tensors[migration.tensor].id},
                                 {"action", to_string(migration.action)},
                                 {"trigger_op", migration.trigger_op},
                                 {"deadline_op", migration.deadline_op}};
  if (uses_tier(migration.action)) json["tier"] = to_string(migration.tier);
  return json;
}

using IsAccepted = std::function<bool(const std::string&)>;

Result<Plan> read_fields(const std::filesystem::path& path, const trace::Trace& trace,
                         const IsAccepted& is_accepted) {
  JsonDocument document(path, {kFormat, kFormatWithReplays});
  const bool with_replays = document.format() == kFormatWithReplays;
  const JsonNode& root = document.root();
  Plan plan;
  const JsonNode name = root["trace"];
  plan.trace = name.text();
  if (plan.trace != trace.name && !(is_accepted && is_accepted(plan.trace)))
    name.fail(
        fmt::format("expected a plan for \"{}\", found one for \"{}\"", trace.name, plan.trace));
  const Positions positions = positions_of(trace);
  const JsonNode migrations = root["migrations"];
  const size_t count = migrations.size();
  plan.migrations.reserve(count);
  for (size_t i = 0; i < count; ++i)
    plan.migrations.push_back(
        read_migration(migrations.element(i), trace, positions, with_replays));
  TERAIO_RETURN_IF_ERROR(document.status());
  return plan;
}

}  // namespace

Result<Plan> read_plan(const std::filesystem::path& path, const trace::Trace& trace,
                       const IsAccepted& is_accepted) {
  return within_memory(path, [&] { return read_fields(path, trace, is_accepted); });
}

Result<std::string> read_trace_name(const std::filesystem::path& path) {
  return within_memory(path, [&]() -> Result<std::string> {
    JsonDocument document(path, {kFormat, kFormatWithReplays});
    std::string name = document.root()["trace"].text();
    if (!document.status().ok()) return document.status();
    return name;
  });
}

Status write_plan(const Plan& plan, const trace::Trace& trace, const std::filesystem::path& path) {
  const std::string_view format = has_replays(plan) ? kFormatWithReplays : kFormat;
  nlohmann::ordered_json json = {{"format", format}, {"trace", plan.trace}};
  auto& migrations = json["migrations"] = nlohmann::ordered_json::array();
  for (const Migration& migration : plan.migrations)
    migrations.push_back(to_json(migration, trace));
  return write_text_file(path, to_json_text(json));
}

}  // namespace teraio::plan
