#include "trace/trace_file.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>

#include "base/json_file.h"

namespace teraio::trace {
namespace {

constexpr std::string_view kFormat = "teraio-trace/1";
constexpr size_t kMostEntries = size_t{1} << 30;

using Positions = std::unordered_map<int64_t, TensorIndex>;

std::optional<TensorKind> kind_of(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(TensorKind::kOther); ++i)
    if (to_string(static_cast<TensorKind>(i)) == text) return static_cast<TensorKind>(i);
  return std::nullopt;
}

TensorKind read_kind(const JsonNode& node) {
  const std::string text = node.text();
  const std::optional<TensorKind> kind = kind_of(text);
  if (!kind)
    node.fail(
        fmt::format("expected parameter, gradient, optimizer_state, activation, input, workspace "
                    "or other, found \"{}\"",
                    text));
  return kind.value_or(TensorKind::kOther);
}

Tensor read_tensor(const JsonNode& node) {
  Tensor tensor;
  tensor.id = node["id"].non_negative_integer();
  tensor.size_bytes = node["bytes"].non_negative_integer();
  tensor.persistent = node["persistent"].boolean();
  tensor.kind = read_kind(node["kind"]);
  if (const JsonNode name = node.find("name"); name.exists()) tensor.name = name.text();
  return tensor;
}

void read_tensors(const JsonNode& node, Trace& trace, Positions& positions) {
  const size_t count = node.size();
  trace.tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const JsonNode element = node.element(i);
    trace.tensors.push_back(read_tensor(element));
    const int64_t id = trace.tensors.back().id;
    if (!positions.emplace(id, static_cast<TensorIndex>(i)).second)
      element["id"].fail(
          fmt::format("expected an id that no other tensor has, found {} twice", id));
  }
}

std::vector<TensorIndex> read_references(const JsonNode& node, const Positions& positions) {
  std::vector<TensorIndex> references(node.size());
  for (size_t i = 0; i < references.size(); ++i) {
    const JsonNode element = node.element(i);
    const int64_t id = element.non_negative_integer();
    const auto found = positions.find(id);
    if (found == positions.end())
      element.fail(fmt::format("expected the id of a tensor, found {}", id));
    else
      references[i] = found->second;
  }
  return references;
}

Op read_op(const JsonNode& node, const Positions& positions) {
  Op op;
  op.name = node["name"].text();
  op.duration_ns = node["duration_ns"].non_negative_integer();
  op.reads = read_references(node["reads"], positions);
  op.writes = read_references(node["writes"], positions);
  op.frees = read_references(node["frees"], positions);
  op.workspace_bytes = node["workspace_bytes"].non_negative_integer();
  if (const JsonNode flag = node.find("replayable"); flag.exists()) op.replayable = flag.boolean();
  return op;
}

void read_ops(const JsonNode& node, Trace& trace, const Positions& positions) {
  const size_t count = node.size();
  trace.ops.reserve(count);
  for (size_t i = 0; i < count; ++i) trace.ops.push_back(read_op(node.element(i), positions));
}

// What validate() has seen of a tensor up to the current op.
struct Sighting {
  OpIndex active_op = -1;
  OpIndex freed_by = -1;
  bool alive = false;
};

class Validation {
 public:
  explicit Validation(const Trace& trace) : trace_(trace), seen_(trace.tensors.size()) {}

  Status run() {
    if (trace_.tokens_per_step && *trace_.tokens_per_step < 1)
      return broken(fmt::format("tokens_per_step: expected a positive number, found {}",
                                *trace_.tokens_per_step));
    TERAIO_RETURN_IF_ERROR(check_tensors());
    for (size_t k = 0; k < trace_.ops.size(); ++k) {
      TERAIO_RETURN_IF_ERROR(check_op(static_cast<OpIndex>(k)));
    }
    return Status();
  }

 private:
  static Status broken(std::string message) {
    return Status(ErrorCode::kInvalidArgument, std::move(message));
  }

  Status check_tensors() {
    if (trace_.tensors.size() > kMostEntries || trace_.ops.size() > kMostEntries)
      return broken("tensors: expected at most 2^30 tensors and ops");
    Positions ids;
    int64_t total_bytes = 0;
    for (size_t i = 0; i < trace_.tensors.size(); ++i) {
      const Tensor& tensor = trace_.tensors[i];
      if (tensor.id < 0 || !ids.emplace(tensor.id, i).second)
        return broken(
            fmt::format("tensors[{}].id: expected an id that is not negative and that no "
                        "other tensor has, found {}",
                        i, tensor.id));
      if (tensor.size_bytes < 0 ||
          __builtin_add_overflow(total_bytes, tensor.size_bytes, &total_bytes))
        return broken(
            fmt::format("tensors[{}].bytes: expected a size that is not negative and a "
                        "sum of sizes below 2^63, found {}",
                        i, tensor.size_bytes));
      seen_[i].alive = tensor.persistent;
    }
    total_bytes_ = total_bytes;
    return Status();
  }

  Status check_op(OpIndex k) {
    const Op& op = trace_.ops[k];
    int64_t sum = 0;
    if (op.duration_ns < 0 || __builtin_add_overflow(total_ns_, op.duration_ns, &total_ns_))
      return broken(
          fmt::format("ops[{}].duration_ns: expected a time that is not negative and a "
                      "sum of times below 2^63, found {}",
                      k, op.duration_ns));
    if (op.workspace_bytes < 0 || __builtin_add_overflow(total_bytes_, op.workspace_bytes, &sum))
      return broken(
          fmt::format("ops[{}].workspace_bytes: expected a size that is not negative, "
                      "found {}",
                      k, op.workspace_bytes));
    TERAIO_RETURN_IF_ERROR(check_active(k, "reads", op.reads));
    TERAIO_RETURN_IF_ERROR(check_active(k, "writes", op.writes));
    return check_frees(k, op.frees);
  }

  bool out_of_range(TensorIndex tensor) const {
    return tensor < 0 || static_cast<size_t>(tensor) >= trace_.tensors.size();
  }

  Status check_active(OpIndex k, const char* field, const std::vector<TensorIndex>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto at = [&] { return fmt::format("ops[{}].{}[{}]", k, field, i); };
      if (out_of_range(tensors[i])) return broken(at() + ": expected a tensor of the trace");
      Sighting& sighting = seen_[tensors[i]];
      const int64_t id = trace_.tensors[tensors[i]].id;
      if (sighting.active_op == k)
        return broken(
            fmt::format("{}: expected a tensor at most once in an op, found {} twice", at(), id));
      if (sighting.freed_by >= 0)
        return broken(
            fmt::format("{}: expected a tensor that is alive, found {}, which op {} freed", at(),
                        id, sighting.freed_by));
      sighting.active_op = k;
      sighting.alive = true;
    }
    return Status();
  }

  Status check_frees(OpIndex k, const std::vector<TensorIndex>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto at = [&] { return fmt::format("ops[{}].frees[{}]", k, i); };
      if (out_of_range(tensors[i])) return broken(at() + ": expected a tensor of the trace");
      const Tensor& tensor = trace_.tensors[tensors[i]];
      Sighting& sighting = seen_[tensors[i]];
      if (tensor.persistent)
        return broken(
            fmt::format("{}: expected a tensor that is not persistent, found {}", at(), tensor.id));
      if (!sighting.alive || sighting.freed_by >= 0)
        return broken(
            fmt::format("{}: expected a tensor that is alive, found {}", at(), tensor.id));
      sighting.freed_by = k;
    }
    return Status();
  }

  const Trace& trace_;
  std::vector<Sighting> seen_;
  int64_t total_bytes_ = 0;
  int64_t total_ns_ = 0;
};

nlohmann::ordered_json ids_of(const Trace& trace, const std::vector<TensorIndex>& references) {
  auto ids = nlohmann::ordered_json::array();
  for (TensorIndex tensor : references) ids.push_back(trace.tensors[tensor].id);
  return ids;
}

nlohmann::ordered_json to_json(const Tensor& tensor) {
  nlohmann::ordered_json json = {{"id", tensor.id},
                                 {"bytes", tensor.size_bytes},
                                 {"persistent", tensor.persistent},
                                 {"kind", to_string(tensor.kind)}};
  if (!tensor.name.empty()) json["name"] = tensor.name;
  return json;
}

nlohmann::ordered_json to_json(const Op& op, const Trace& trace) {
  nlohmann::ordered_json json = {{"name", op.name},
                                 {"duration_ns", op.duration_ns},
                                 {"reads", ids_of(trace, op.reads)},
                                 {"writes", ids_of(trace, op.writes)},
                                 {"frees", ids_of(trace, op.frees)},
                                 {"workspace_bytes", op.workspace_bytes}};
  if (op.replayable) json["replayable"] = true;
  return json;
}

Result<Trace> read_fields(const std::filesystem::path& path) {
  JsonDocument document(path, kFormat);
  const JsonNode& root = document.root();
  Trace trace;
  Positions positions;
  trace.name = root["name"].text();
  trace.source = root["source"].text();
  if (const JsonNode tokens = root.find("tokens_per_step"); tokens.exists())
    trace.tokens_per_step = tokens.positive_integer();
  read_tensors(root["tensors"], trace, positions);
  read_ops(root["ops"], trace, positions);
  TERAIO_RETURN_IF_ERROR(document.status());
  TERAIO_RETURN_IF_ERROR(validate(trace).with_context(path.string()));
  return trace;
}

}  // namespace

Status validate(const Trace& trace) { return Validation(trace).run(); }

Result<Trace> read_trace(const std::filesystem::path& path) {
  return within_memory(path, [&] { return read_fields(path); });
}

Status write_trace(const Trace& trace, const std::filesystem::path& path) {
  TERAIO_RETURN_IF_ERROR(validate(trace).with_context(trace.name));
  nlohmann::ordered_json json = {
      {"format", kFormat}, {"name", trace.name}, {"source", trace.source}};
  if (trace.tokens_per_step) json["tokens_per_step"] = *trace.tokens_per_step;
  auto& tensors = json["tensors"] = nlohmann::ordered_json::array();
  for (const Tensor& tensor : trace.tensors) tensors.push_back(to_json(tensor));
  auto& ops = json["ops"] = nlohmann::ordered_json::array();
  for (const Op& op : trace.ops) ops.push_back(to_json(op, trace));
  return write_text_file(path, to_json_text(json));
}

}  // namespace teraio::trace
