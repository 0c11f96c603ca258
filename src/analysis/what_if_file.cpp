#include "analysis/what_if_file.h"

#include <nlohmann/json.hpp>

#include "base/json_file.h"

namespace teraio::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "teraio-what-if/1";

void add_run(const SweepResult& result, Json& json) {
  const simulate::Run& run = result.run;
  json["step_ns"] = run.step_ns;
  json["fraction_of_ideal"] = fraction_of_ideal(run);
  if (!run.replays.empty()) json["replay_ns"] = run.replay_ns;
  json["stall_ns"] = run.stall_ns;
  json["ssd_bytes_written"] = run.ssd_bytes_written;
  json["ssd_bytes_read"] = run.ssd_bytes_read;
  json["host_bytes_written"] = run.host_bytes_written;
  json["host_bytes_read"] = run.host_bytes_read;
  json["host_peak_bytes"] = run.host_peak_bytes;
  json["ssd_peak_bytes"] = run.ssd_peak_bytes;
  if (result.drive_life_years) json["drive_life_years"] = *result.drive_life_years;
}

void add_cost(const Cost& cost, Json& json) {
  json["price"] = cost.price;
  if (cost.tokens_per_second) json["tokens_per_second"] = *cost.tokens_per_second;
  if (cost.per_million_tokens) json["cost_per_million_tokens"] = *cost.per_million_tokens;
}

bool is_present(const MachineConfig& machine, const SweepPoint& point) {
  for (const ParameterValue& change : point)
    if (current_value(machine, change.parameter) != change.value) return false;
  return true;
}

Json to_json(const SweepResult& result, const MachineConfig& machine, bool cheapest) {
  Json json = Json::object();
  Json& values = json["setting"] = Json::object();
  for (const ParameterValue& change : result.point)
    values[std::string(to_string(change.parameter))] = change.value;
  json["as_given"] = is_present(machine, result.point);
  json["fits"] = result.status.ok();
  if (!result.status.ok()) {
    json["reason"] = result.status.message();
    return json;
  }
  add_run(result, json);
  if (result.cost) add_cost(*result.cost, json);
  json["cheapest_within_5_percent"] = cheapest;
  return json;
}

Json to_json(const Sweep& sweep, const MachineConfig& machine) {
  Json json = Json::object();
  Json& parameters = json["quantities"] = Json::array();
  for (SweepParameter parameter : sweep.parameters) parameters.push_back(to_string(parameter));
  if (!sweep.note.empty()) json["note"] = sweep.note;
  Json& results = json["settings"] = Json::array();
  for (size_t i = 0; i < sweep.results.size(); ++i)
    results.push_back(to_json(sweep.results[i], machine, sweep.cheapest == i));
  return json;
}

Json to_json(const Prices& prices) {
  Json json = {{"name", prices.name},
               {"source", prices.source},
               {"currency", prices.currency},
               {"devices", prices.device_count}};
  if (prices.service_years) json["service_years"] = *prices.service_years;
  return json;
}

}  // namespace

Status write_sweeps(const SweepRequest& request, const std::vector<Sweep>& sweeps,
                    const std::filesystem::path& path) {
  Json json = {{"format", kFormat},
               {"trace", request.trace.name},
               {"source", request.trace.source},
               {"hardware", request.machine.hardware.name},
               {"effort", request.options.effort == planner::Effort::kBest ? "best" : "fast"}};
  if (request.tokens_per_step) json["tokens_per_step"] = *request.tokens_per_step;
  if (request.prices) json["prices"] = to_json(*request.prices);
  json["ideal_ns"] = ideal_ns(request.trace);
  Json& list = json["sweeps"] = Json::array();
  for (const Sweep& sweep : sweeps) list.push_back(to_json(sweep, request.machine));
  return write_text_file(path, to_json_text(json));
}

}  // namespace teraio::analysis
