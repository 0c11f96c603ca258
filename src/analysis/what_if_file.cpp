#include "analysis/what_if_file.h"

#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "simulate/run_file.h"

namespace teraio::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "teraio-what-if/1";

void add_run(const Outcome& outcome, Json& json) {
  const simulate::Run& run = outcome.run;
  json["step_ns"] = run.step_ns;
  json["fraction_of_ideal"] = fraction_of_ideal(run);
  json["stall_ns"] = run.stall_ns;
  json["ssd_bytes_written"] = run.ssd_bytes_written;
  json["ssd_bytes_read"] = run.ssd_bytes_read;
  json["host_bytes_written"] = run.host_bytes_written;
  json["host_bytes_read"] = run.host_bytes_read;
  json["host_peak_bytes"] = run.host_peak_bytes;
  json["ssd_peak_bytes"] = run.ssd_peak_bytes;
  if (outcome.drive_life_years) json["drive_life_years"] = *outcome.drive_life_years;
}

void add_cost(const Cost& cost, Json& json) {
  json["price"] = cost.price;
  if (cost.tokens_per_second) json["tokens_per_second"] = *cost.tokens_per_second;
  if (cost.per_million_tokens) json["cost_per_million_tokens"] = *cost.per_million_tokens;
}

bool is_present(const Equipment& equipment, const Setting& setting) {
  for (const Change& change : setting)
    if (present_value(equipment, change.quantity) != change.value) return false;
  return true;
}

Json to_json(const Outcome& outcome, const Equipment& equipment, bool cheapest) {
  Json json = Json::object();
  Json& values = json["setting"] = Json::object();
  for (const Change& change : outcome.setting)
    values[std::string(to_string(change.quantity))] = change.value;
  json["as_given"] = is_present(equipment, outcome.setting);
  json["fits"] = outcome.status.ok();
  if (!outcome.status.ok()) {
    json["reason"] = outcome.status.message();
    return json;
  }
  add_run(outcome, json);
  if (outcome.cost) add_cost(*outcome.cost, json);
  json["cheapest_within_5_percent"] = cheapest;
  return json;
}

Json to_json(const Sweep& sweep, const Equipment& equipment) {
  Json json = Json::object();
  Json& quantities = json["quantities"] = Json::array();
  for (Quantity quantity : sweep.quantities) quantities.push_back(to_string(quantity));
  if (!sweep.note.empty()) json["note"] = sweep.note;
  Json& outcomes = json["settings"] = Json::array();
  for (size_t i = 0; i < sweep.outcomes.size(); ++i)
    outcomes.push_back(to_json(sweep.outcomes[i], equipment, sweep.cheapest == i));
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

Status write_sweeps(const Question& question, const std::vector<Sweep>& sweeps,
                    const std::filesystem::path& path) {
  Json json = {{"format", kFormat},
               {"trace", question.trace.name},
               {"source", question.trace.source},
               {"hardware", question.equipment.hardware.name},
               {"effort", question.options.effort == planner::Effort::kBest ? "best" : "fast"}};
  if (question.tokens_per_step) json["tokens_per_step"] = *question.tokens_per_step;
  if (question.prices) json["prices"] = to_json(*question.prices);
  int64_t ideal_ns = 0;
  for (const trace::Op& op : question.trace.ops) ideal_ns += op.duration_ns;
  json["ideal_ns"] = ideal_ns;
  Json& list = json["sweeps"] = Json::array();
  for (const Sweep& sweep : sweeps) list.push_back(to_json(sweep, question.equipment));
  return write_text_file(path, to_json_text(json));
}

}  // namespace teraio::analysis
