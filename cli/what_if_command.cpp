// `teraio what-if`: how a step would go with more or fewer drives, more memory, faster drives.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/what_if_file.h"
#include "base/units.h"
#include "commands.h"
#include "drive_life.h"
#include "inputs.h"
#include "progress.h"
#include "python.h"
#include "simulate/run_file.h"
#include "table.h"

namespace teraio::cli {
namespace {

constexpr double kNearBest = 0.05;
constexpr int kWriteBudgets = 6;
constexpr int64_t kMostDrives = 100;
constexpr int64_t kGigabyte = 1'000'000'000;
constexpr int64_t kTerabyte = 1000 * kGigabyte;

struct SweepOption {
  analysis::Quantity quantity;
  const char* flag;
  const char* help;
};

constexpr SweepOption kSweepOptions[] = {
    {analysis::Quantity::kDrives, "--drives", "Numbers of drives (default: 1-8)"},
    {analysis::Quantity::kHostMemory, "--host-memory", "Host memory (default: 0 to 1TB)"},
    {analysis::Quantity::kBandwidth, "--bandwidth",
     "What all drives read per second; writes in proportion (default: 4GB to 64GB)"},
    {analysis::Quantity::kDeviceMemory, "--device-memory",
     "Device memory (default: half of what it is to twice)"},
    {analysis::Quantity::kWriteBudget, "--write-budgets",
     "Bytes that a step may write to the drives (default: from the least that does)"}};

std::map<std::string, analysis::Quantity> quantities_by_name() {
  std::map<std::string, analysis::Quantity> names;
  for (analysis::Quantity quantity : analysis::kQuantities)
    names[std::string(to_string(quantity))] = quantity;
  return names;
}

struct WhatIfCommand {
  explicit WhatIfCommand(CLI::App& command);
  void run() const;

  analysis::Question question() const;
  std::vector<analysis::Quantity> chosen() const;
  Result<std::vector<int64_t>> values_of(const analysis::Question& question,
                                         analysis::Quantity quantity) const;
  analysis::Sweep swept(const analysis::Question& question,
                        const std::vector<analysis::Quantity>& quantities,
                        Progress& progress) const;

  InputOptions inputs;
  EffortOptions effort;
  std::vector<analysis::Quantity> sweeps;
  std::map<analysis::Quantity, std::vector<std::string>> lists;
  std::string prices;
  int64_t tokens_per_step = 0;
  double service_years = 0;
  bool grid = false;
  std::string out;
};

WhatIfCommand::WhatIfCommand(CLI::App& command) : inputs(command), effort(command) {
  command
      .add_option("--sweep", sweeps,
                  "What to vary, one after the other: drives, host, bandwidth, device, writes "
                  "(default: what is given a list below; without any, all)")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(quantities_by_name()));
  for (const SweepOption& option : kSweepOptions)
    command.add_option(option.flag, lists[option.quantity], option.help)->delimiter(',');
  command.add_flag("--grid", grid, "Vary them together: all combinations");
  command.add_option("--prices", prices, "What the server, its memory and its drives cost (JSON)");
  command
      .add_option("--tokens-per-step", tokens_per_step,
                  "Tokens that the whole server trains in one step (default: the trace's)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--service-years", service_years,
                  "Years over which the server is written off (default: the price file's)")
      ->check(CLI::PositiveNumber);
  command.add_option("--out", out, "Write tables (JSON) and figures (SVG, PNG) into this folder");
}

std::string value_text(const analysis::Change& change) {
  switch (change.quantity) {
    case analysis::Quantity::kDrives:
      return std::to_string(change.value);
    case analysis::Quantity::kBandwidth:
      return format_size(change.value) + "/s";
    default:
      return format_size(change.value);
  }
}

std::string header_of(const std::vector<analysis::Quantity>& quantities) {
  static const std::map<analysis::Quantity, std::string> kHeaders = {
      {analysis::Quantity::kDrives, "drives"},
      {analysis::Quantity::kHostMemory, "host memory"},
      {analysis::Quantity::kBandwidth, "drives read"},
      {analysis::Quantity::kDeviceMemory, "device memory"},
      {analysis::Quantity::kWriteBudget, "write budget"}};
  std::string header;
  for (analysis::Quantity quantity : quantities)
    header += (header.empty() ? "" : ", ") + kHeaders.at(quantity);
  return header;
}

std::string setting_text(const analysis::Setting& setting) {
  std::string text;
  for (const analysis::Change& change : setting)
    text += (text.empty() ? "" : ", ") + value_text(change);
  return text;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 0 && value <= kMostDrives ? std::optional(value) : std::nullopt;
}

// "4", or "1-8" for all numbers from 1 to 8.
std::vector<int64_t> drive_counts(const std::string& text) {
  const size_t dash = text.find('-');
  const std::optional<int64_t> first = whole_number(text.substr(0, dash));
  const std::optional<int64_t> last =
      dash == text.npos ? first : whole_number(text.substr(dash + 1));
  if (!first || !last || *first > *last)
    fail(Status(ErrorCode::kInvalidArgument,
                fmt::format("--drives: expected numbers of 0 to {} such as 1-8 or 1,2,4, found "
                            "\"{}\"",
                            kMostDrives, text)));
  std::vector<int64_t> counts;
  for (int64_t count = *first; count <= *last; ++count) counts.push_back(count);
  return counts;
}

std::vector<int64_t> listed_values(analysis::Quantity quantity,
                                   const std::vector<std::string>& texts) {
  std::set<int64_t> values;
  for (const std::string& text : texts) {
    if (quantity == analysis::Quantity::kDrives) {
      const std::vector<int64_t> counts = drive_counts(text);
      values.insert(counts.begin(), counts.end());
    } else {
      values.insert(size_or_fail(kSweepOptions[static_cast<int>(quantity)].flag, text));
    }
  }
  return {values.begin(), values.end()};
}

// The usual values of a quantity, and the present one among them.
std::vector<int64_t> usual_values(analysis::Quantity quantity, int64_t present) {
  std::set<int64_t> values;
  if (present > 0) values.insert(present);
  switch (quantity) {
    case analysis::Quantity::kDrives:
      for (int64_t count = 1; count <= 8; ++count) values.insert(count);
      break;
    case analysis::Quantity::kHostMemory:
      for (int64_t gigabytes : {0, 64, 128, 256, 512, 768}) values.insert(gigabytes * kGigabyte);
      values.insert(kTerabyte);
      break;
    case analysis::Quantity::kBandwidth:
      for (int64_t gigabytes : {4, 8, 16, 24, 32, 48, 64}) values.insert(gigabytes * kGigabyte);
      break;
    case analysis::Quantity::kDeviceMemory:
      for (int64_t quarters : {2, 3, 4, 5, 6, 8}) values.insert(present / 4 * quarters);
      break;
    case analysis::Quantity::kWriteBudget:
      break;  // depends on the trace: write_budgets()
  }
  return {values.begin(), values.end()};
}

Result<std::vector<int64_t>> WhatIfCommand::values_of(const analysis::Question& question,
                                                      analysis::Quantity quantity) const {
  const std::vector<std::string>& texts = lists.at(quantity);
  if (!texts.empty()) return listed_values(quantity, texts);
  if (quantity == analysis::Quantity::kWriteBudget) return write_budgets(question, kWriteBudgets);
  return usual_values(quantity, present_value(question.equipment, quantity));
}

analysis::Question WhatIfCommand::question() const {
  Inputs given = inputs.read();
  analysis::Question question{std::move(given.trace),
                              {std::move(given.hardware), given.limits},
                              effort.planner_options(),
                              {},
                              {}};
  question.tokens_per_step = question.trace.tokens_per_step;
  if (tokens_per_step > 0) question.tokens_per_step = tokens_per_step;
  if (!prices.empty()) question.prices = value_or_fail(analysis::read_prices(prices));
  if (service_years > 0 && !question.prices)
    fail(Status(ErrorCode::kInvalidArgument, "--service-years: expected --prices with it"));
  if (service_years > 0) question.prices->service_years = service_years;
  return question;
}

std::vector<analysis::Quantity> WhatIfCommand::chosen() const {
  std::vector<analysis::Quantity> chosen;
  for (analysis::Quantity quantity : analysis::kQuantities)
    if (sweeps.empty() ? !lists.at(quantity).empty()
                       : std::find(sweeps.begin(), sweeps.end(), quantity) != sweeps.end())
      chosen.push_back(quantity);
  if (chosen.empty()) chosen.assign(analysis::kQuantities.begin(), analysis::kQuantities.end());
  return chosen;
}

// Each setting with each of the values.
std::vector<analysis::Setting> combined(const std::vector<analysis::Setting>& settings,
                                        analysis::Quantity quantity,
                                        const std::vector<int64_t>& values) {
  std::vector<analysis::Setting> all;
  for (const analysis::Setting& setting : settings)
    for (int64_t value : values) {
      all.push_back(setting);
      all.back().push_back({quantity, value});
    }
  return all;
}

analysis::Sweep WhatIfCommand::swept(const analysis::Question& question,
                                     const std::vector<analysis::Quantity>& quantities,
                                     Progress& progress) const {
  analysis::Sweep sweep{quantities, {}, {}, {}};
  std::vector<analysis::Setting> settings = {{}};
  const std::string header = header_of(quantities);
  progress.show(header + " ...");
  for (analysis::Quantity quantity : quantities) {
    const Result<std::vector<int64_t>> values = values_of(question, quantity);
    if (!values.ok() || values->empty()) {
      sweep.note = values.ok() ? "nothing is written to the drives: there is no budget to vary"
                               : values.status().message();
      return sweep;
    }
    settings = combined(settings, quantity, *values);
  }
  sweep.outcomes = what_if(question, settings, [&](size_t done) {
    progress.show(fmt::format("{}: {} of {} settings ...", header, done, settings.size()));
  });
  // Combinations are in no order of what they ask for: only a price can tell the cheapest.
  if (quantities.size() == 1 || question.prices)
    sweep.cheapest = cheapest_near_best(sweep.outcomes, kNearBest);
  return sweep;
}

// What the columns of cost say; empty without prices.
std::vector<std::string> cost_headers(const analysis::Question& question) {
  if (!question.prices) return {};
  const analysis::Prices& prices = *question.prices;
  std::vector<std::string> headers = {prices.currency};
  if (question.tokens_per_step) {
    headers.push_back("tokens/s");
    headers.push_back(prices.service_years ? prices.currency + " per M tokens"
                                           : prices.currency + " per token/s");
  }
  return headers;
}

std::vector<std::string> cost_cells(const std::optional<analysis::Cost>& cost) {
  if (!cost) return {"no price", "", ""};
  std::vector<std::string> cells = {fmt::format("{:.0f}", cost->price)};
  if (!cost->tokens_per_second) return cells;
  cells.push_back(fmt::format("{:.0f}", *cost->tokens_per_second));
  cells.push_back(cost->per_million_tokens
                      ? fmt::format("{:.4g}", *cost->per_million_tokens)
                      : fmt::format("{:.4g}", cost->price / *cost->tokens_per_second));
  return cells;
}

void append(std::vector<std::string>& cells, const std::vector<std::string>& more, size_t count) {
  for (size_t i = 0; i < count; ++i) cells.push_back(i < more.size() ? more[i] : "");
}

std::vector<std::string> row_of(const analysis::Outcome& outcome, bool cheapest,
                                size_t cost_columns) {
  const std::string name = setting_text(outcome.setting);
  if (!outcome.status.ok()) return {name, "not possible"};
  const teraio::simulate::Run& run = outcome.run;
  std::vector<std::string> cells = {
      name,
      format_duration(run.step_ns),
      fmt::format("{:.1f} %", 100 * fraction_of_ideal(run)),
      format_size(run.ssd_bytes_written),
      outcome.drive_life_years ? life_text(*outcome.drive_life_years) : "",
      format_size(run.host_peak_bytes)};
  append(cells, cost_columns > 0 ? cost_cells(outcome.cost) : std::vector<std::string>(),
         cost_columns);
  cells.push_back(cheapest ? "<- cheapest near the best" : "");
  return cells;
}

// Each reason once, with the settings that it holds for.
std::string reasons_text(const std::vector<analysis::Outcome>& outcomes) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const analysis::Outcome& outcome : outcomes) {
    if (outcome.status.ok()) continue;
    const std::string& reason = outcome.status.message();
    const auto same = std::find_if(reasons.begin(), reasons.end(),
                                   [&](const auto& known) { return known.first == reason; });
    if (same == reasons.end())
      reasons.push_back({reason, setting_text(outcome.setting)});
    else
      same->second += "; " + setting_text(outcome.setting);
  }
  std::string text;
  for (const auto& [reason, settings] : reasons)
    text += fmt::format("{}: not possible: {}\n", settings, reason);
  return text;
}

std::string text_of(const analysis::Question& question, const analysis::Sweep& sweep) {
  const std::string header = header_of(sweep.quantities);
  if (!sweep.note.empty()) return fmt::format("{}: {}\n", header, sweep.note);
  const std::vector<std::string> costs = cost_headers(question);
  std::vector<std::string> headers = {header,        "step",     "of ideal", "written to drives",
                                      "drives last", "host peak"};
  append(headers, costs, costs.size());
  headers.push_back("");
  Table table(headers);
  for (size_t i = 0; i < sweep.outcomes.size(); ++i)
    table.add(row_of(sweep.outcomes[i], sweep.cheapest == i, costs.size()));
  return table.text() + reasons_text(sweep.outcomes);
}

std::string introduction(const analysis::Question& question) {
  std::string text = fmt::format("{} on {}: predicted, each setting planned and simulated\n",
                                 question.trace.name, question.equipment.hardware.name);
  if (!question.prices) return text;
  text += fmt::format("prices: {} ({})\n", question.prices->name, question.prices->source);
  if (!question.tokens_per_step)
    text +=
        "no cost per token: the trace does not tell the tokens of a step; give "
        "--tokens-per-step\n";
  else if (!question.prices->service_years)
    text += "no cost per token: the price file has no service_years; give --service-years\n";
  return text;
}

void WhatIfCommand::run() const {
  const analysis::Question asked = question();
  const std::vector<analysis::Quantity> quantities = chosen();
  if (!out.empty()) make_folder_or_fail(out);
  fmt::print("{}", introduction(asked));
  std::vector<analysis::Sweep> done;
  Progress progress;
  const auto add = [&](const std::vector<analysis::Quantity>& together) {
    done.push_back(swept(asked, together, progress));
    progress.show("");
    fmt::print("\n{}", text_of(asked, done.back()));
    std::fflush(stdout);
  };
  if (grid) add(quantities);
  for (analysis::Quantity quantity : quantities)
    if (!grid) add({quantity});
  if (out.empty()) return;
  const std::filesystem::path tables = std::filesystem::path(out) / "what-if.json";
  if (const Status written = write_sweeps(asked, done, tables); !written.ok()) fail(written);
  progress.show("drawing ...");
  if (const Status drawn = draw_figures(tables); !drawn.ok()) fail(drawn);
}

}  // namespace

void add_what_if_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "what-if", "Predict the step with other drives, memory, bandwidth or write budgets");
  auto options = std::make_shared<WhatIfCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
