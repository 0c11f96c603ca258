#include "analysis/what_if.h"

#include <algorithm>
#include <mutex>

#include "analysis/in_parallel.h"
#include "base/check.h"
#include "plan/validator.h"
#include "simulate/simulator.h"

namespace teraio::analysis {
namespace {

Result<simulate::Run> planned_run(const trace::Trace& trace, const Equipment& equipment,
                                  const planner::PlannerOptions& options) {
  const Result<plan::Plan> plan =
      planner::plan(trace, equipment.hardware, equipment.limits, options);
  if (!plan.ok()) return plan.status();
  TERAIO_RETURN_IF_ERROR(validate_plan(*plan, trace, equipment.hardware, equipment.limits));
  return simulate::simulate(trace, equipment.hardware, equipment.limits, *plan);
}

// Nobody can say from a price file what another device or another kind of drive costs.
bool has_price(const Setting& setting) {
  return std::none_of(setting.begin(), setting.end(), [](const Change& change) {
    return change.quantity == Quantity::kBandwidth || change.quantity == Quantity::kDeviceMemory;
  });
}

Outcome outcome_of(const Question& question, const Setting& setting) {
  Outcome outcome{setting, {}, {}, {}, {}};
  const Result<Equipment> equipment = changed(question.equipment, setting);
  outcome.status = equipment.status();
  if (!equipment.ok()) return outcome;
  Result<simulate::Run> run = planned_run(question.trace, *equipment, question.options);
  outcome.status = run.status();
  if (!run.ok()) return outcome;
  run->op_start_ns.clear();
  run->transfers.clear();
  outcome.run = std::move(*run);
  outcome.drive_life_years = drive_life_years(equipment->hardware, outcome.run);
  if (question.prices && has_price(setting))
    outcome.cost = cost_of(*question.prices, equipment->hardware,
                           present_value(*equipment, Quantity::kHostMemory), outcome.run,
                           question.tokens_per_step);
  return outcome;
}

// What to compare candidates by: smaller is cheaper.
std::vector<double> cheapness(const std::vector<Outcome>& outcomes,
                              const std::vector<size_t>& candidates) {
  const auto all = [&](auto known) {
    return std::all_of(candidates.begin(), candidates.end(),
                       [&](size_t i) { return known(outcomes[i]); });
  };
  const bool per_token = all([](const Outcome& o) { return o.cost && o.cost->per_million_tokens; });
  const bool price = all([](const Outcome& o) { return o.cost.has_value(); });
  std::vector<double> keys;
  for (size_t i : candidates)
    keys.push_back(per_token ? *outcomes[i].cost->per_million_tokens
                   : price   ? outcomes[i].cost->price
                             : static_cast<double>(i));
  return keys;
}

}  // namespace

std::vector<Outcome> what_if(const Question& question, const std::vector<Setting>& settings,
                             const std::function<void(size_t)>& on_done) {
  std::vector<Outcome> outcomes(settings.size());
  std::mutex mutex;
  size_t done = 0;
  // A search with best effort has two threads of its own.
  const int threads = question.options.effort == planner::Effort::kBest ? 1 : 2;
  in_parallel(settings.size(), threads, [&](size_t i) {
    outcomes[i] = outcome_of(question, settings[i]);
    const std::lock_guard lock(mutex);
    if (on_done) on_done(++done);
  });
  return outcomes;
}

Result<std::vector<int64_t>> write_budgets(const Question& question, int count) {
  TERAIO_CHECK(count >= 2);
  Equipment equipment = question.equipment;
  equipment.limits.write_budget_bytes.reset();
  const Result<int64_t> least =
      planner::least_write_budget_bytes(question.trace, equipment.hardware, equipment.limits);
  if (!least.ok()) return least.status();
  const Result<simulate::Run> free = planned_run(question.trace, equipment, question.options);
  if (!free.ok()) return free.status();
  std::vector<int64_t> budgets;
  if (free->ssd_bytes_written == 0) return budgets;
  const int64_t span = std::max<int64_t>(0, free->ssd_bytes_written - *least);
  for (int i = 0; i < count; ++i) budgets.push_back(*least + span / (count - 1) * i);
  budgets.back() = std::max(*least, free->ssd_bytes_written);
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

std::optional<size_t> cheapest_near_best(const std::vector<Outcome>& outcomes, double within) {
  int64_t fastest_ns = 0;
  for (const Outcome& outcome : outcomes)
    if (outcome.status.ok() && (fastest_ns == 0 || outcome.run.step_ns < fastest_ns))
      fastest_ns = outcome.run.step_ns;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i].status.ok() && static_cast<double>(outcomes[i].run.step_ns) <=
                                       static_cast<double>(fastest_ns) * (1 + within))
      candidates.push_back(i);
  if (candidates.empty()) return std::nullopt;
  const std::vector<double> keys = cheapness(outcomes, candidates);
  return candidates[std::min_element(keys.begin(), keys.end()) - keys.begin()];
}

}  // namespace teraio::analysis
