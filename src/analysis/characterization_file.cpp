#include "analysis/characterization_file.h"

#include <nlohmann/json.hpp>

#include "base/json_file.h"

namespace teraio::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCharacterizationFormat = "teraio-characterization/1";

Json to_json(const PhaseMemory& phase) {
  return {{"name", phase.name},
          {"ops", phase.op_count},
          {"duration_ns", phase.duration_ns},
          {"all_bytes_max", phase.all_bytes_max},
          {"active_bytes_max", phase.active_bytes_max},
          {"active_bytes_mean", phase.active_bytes_mean},
          {"active_bytes_mean_in_time", phase.active_bytes_mean_in_time}};
}

Json to_json(const KindSummary& kind) {
  return {{"kind", kind.kind},
          {"tensors", kind.tensor_count},
          {"tensors_10MB_to_1GB", kind.middle_count},
          {"tensors_100MB_and_more", kind.large_count},
          {"tensors_idle_above_10ms", kind.long_tensor_count},
          {"tensors_10MB_to_1GB_idle_above_10ms", kind.long_middle_tensor_count},
          {"periods", kind.period_count},
          {"periods_above_10ms", kind.long_period_count},
          {"median_bytes", kind.median_bytes},
          {"median_idle_ns", kind.median_idle_ns}};
}

Json to_json(const PeriodCell& cell) {
  return {{"kind", to_string(cell.kind)},
          {"bytes_from", cell.size_bytes_from},
          {"idle_ns_from", cell.idle_ns_from},
          {"periods", cell.period_count}};
}

Json to_json(const RooflinePoint& point) {
  return {{"bytes_per_second", point.bytes_per_second},
          {"fraction_of_ideal", point.fraction_of_ideal}};
}

Json to_json(const IdleTensor& listed, const trace::Trace& trace) {
  const trace::Tensor& tensor = trace.tensors[listed.tensor];
  return {{"id", tensor.id},
          {"label", listed.label},
          {"kind", to_string(tensor.kind)},
          {"bytes", tensor.size_bytes},
          {"longest_idle_ns", listed.longest_idle_ns},
          {"uses", listed.use_count}};
}

template <typename T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

Json list_of(const std::vector<IdleTensor>& values, const trace::Trace& trace) {
  Json list = Json::array();
  for (const IdleTensor& value : values) list.push_back(to_json(value, trace));
  return list;
}

// Columns instead of an object per op: there can be 10^5 ops.
Json ops_of(const CharacterizedTrace& given) {
  Json duration_ns = Json::array();
  Json all_bytes = Json::array();
  Json active_bytes = Json::array();
  for (const trace::Op& op : given.trace.ops) duration_ns.push_back(op.duration_ns);
  for (const OpMemory& memory : given.facts.ops) {
    all_bytes.push_back(memory.all_bytes);
    active_bytes.push_back(memory.active_bytes);
  }
  return {{"duration_ns", std::move(duration_ns)},
          {"all_bytes", std::move(all_bytes)},
          {"active_bytes", std::move(active_bytes)}};
}

Json to_json(const CharacterizedTrace& given) {
  Json json = {
      {"name", given.trace.name}, {"source", given.trace.source}, {"step_ns", given.facts.step_ns}};
  if (given.capacity_bytes) json["capacity_bytes"] = *given.capacity_bytes;
  json["phases"] = list_of(given.facts.phases);
  json["kinds"] = list_of(given.facts.kinds);
  json["roofline"] = list_of(given.roofline);
  json["largest"] = list_of(given.facts.largest, given.trace);
  json["longest_idle"] = list_of(given.facts.longest_idle, given.trace);
  json["period_cells"] = list_of(given.facts.cells);
  json["per_op"] = ops_of(given);
  return json;
}

}  // namespace

Status write_characterizations(std::span<const CharacterizedTrace> traces,
                               const std::filesystem::path& path) {
  Json list = Json::array();
  for (const CharacterizedTrace& trace : traces) list.push_back(to_json(trace));
  return write_text_file(
      path, to_json_text({{"format", kCharacterizationFormat}, {"traces", std::move(list)}}));
}

}  // namespace teraio::analysis
