// `teraio what-if`: predicts a step with other numbers of drives, memory sizes, bandwidths and
// write budgets.
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
#include "analysis/write_trade_off.h"
#include "base/units.h"
#include "commands.h"
#include "drive_life.h"
#include "help.h"
#include "inputs.h"
#include "progress.h"
#include "python.h"
#include "table.h"

namespace teraio::cli {
namespace {

constexpr double kNearBest = 0.05;
constexpr int kWriteBudgets = 6;
constexpr int64_t kMostDrives = 100;
constexpr int64_t kGigabyte = 1'000'000'000;
constexpr int64_t kTerabyte = 1000 * kGigabyte;

struct SweepOption {
  analysis::SweepParameter parameter;
  const char* flag;
  const char* value;
  const char* help;
};

constexpr SweepOption kSweepOptions[] = {
    {analysis::SweepParameter::kDrives, "--drives", "N", "Numbers of drives (default: 1-8)"},
    {analysis::SweepParameter::kHostMemory, "--host-memory", "SIZE",
     "Sizes of host memory (default: 0 to 1TB)"},
    {analysis::SweepParameter::kBandwidth, "--bandwidth", "SIZE",
     "Read bandwidths of all drives together; writes scale with them (default: 4GB to 64GB)"},
    {analysis::SweepParameter::kDeviceMemory, "--device-memory", "SIZE",
     "Sizes of device memory (default: half to twice the present size)"},
    {analysis::SweepParameter::kWriteBudget, "--write-budgets", "SIZE",
     "Bytes that a step may write to the drives (default: from the least sufficient)"}};

std::map<std::string, analysis::SweepParameter> parameters_by_name() {
  std::map<std::string, analysis::SweepParameter> names;
  for (analysis::SweepParameter parameter : analysis::kSweepParameters)
    names[std::string(to_string(parameter))] = parameter;
  return names;
}

struct WhatIfCommand {
  explicit WhatIfCommand(CLI::App& command);
  void run() const;

  analysis::SweepRequest request() const;
  std::vector<analysis::SweepParameter> chosen() const;
  Result<std::vector<int64_t>> values_of(const analysis::SweepRequest& request,
                                         analysis::SweepParameter parameter) const;
  analysis::Sweep swept(const analysis::SweepRequest& request,
                        const std::vector<analysis::SweepParameter>& parameters,
                        Progress& progress) const;

  InputOptions inputs;
  EffortOptions effort;
  std::vector<analysis::SweepParameter> sweeps;
  std::map<analysis::SweepParameter, std::vector<std::string>> lists;
  std::string prices;
  int64_t tokens_per_step = 0;
  double service_years = 0;
  bool grid = false;
  std::string out;
};

WhatIfCommand::WhatIfCommand(CLI::App& command) : inputs(command), effort(command) {
  effort.add_recompute(command);
  accept_only(
      command
          .add_option(
              "--sweep", sweeps,
              "Parameters to vary, one after the other: drives, host, bandwidth, device, writes "
              "(default: those with a list of values below, else all)")
          ->delimiter(','),
      parameters_by_name());
  for (const SweepOption& option : kSweepOptions)
    command.add_option(option.flag, lists[option.parameter], option.help)
        ->type_name(option.value)
        ->delimiter(',');
  command.add_flag("--grid", grid, "Vary the parameters together, in all combinations");
  command
      .add_option("--prices", prices, "Price file of the server, its memory and its drives (JSON)")
      ->type_name("FILE");
  command
      .add_option("--tokens-per-step", tokens_per_step,
                  "Tokens that the whole server trains in one step (default: from the trace)")
      ->type_name("N")
      ->check(positive_number());
  command
      .add_option("--service-years", service_years,
                  "Years over which the server is written off (default: from the price file)")
      ->type_name("YEARS")
      ->check(positive_number());
  command.add_option("--out", out, "Write tables (JSON) and figures (SVG, PNG) into this folder")
      ->type_name("DIR");
}

std::string value_text(const analysis::ParameterValue& change) {
  switch (change.parameter) {
    case analysis::SweepParameter::kDrives:
      return std::to_string(change.value);
    case analysis::SweepParameter::kBandwidth:
      return format_size(change.value) + "/s";
    default:
      return format_size(change.value);
  }
}

std::string header_of(const std::vector<analysis::SweepParameter>& parameters) {
  static const std::map<analysis::SweepParameter, std::string> kHeaders = {
      {analysis::SweepParameter::kDrives, "drives"},
      {analysis::SweepParameter::kHostMemory, "host memory"},
      {analysis::SweepParameter::kBandwidth, "drives read"},
      {analysis::SweepParameter::kDeviceMemory, "device memory"},
      {analysis::SweepParameter::kWriteBudget, "write budget"}};
  std::string header;
  for (analysis::SweepParameter parameter : parameters)
    header += (header.empty() ? "" : ", ") + kHeaders.at(parameter);
  return header;
}

std::string point_text(const analysis::SweepPoint& point) {
  std::string text;
  for (const analysis::ParameterValue& change : point)
    text += (text.empty() ? "" : ", ") + value_text(change);
  return text;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 0 && value <= kMostDrives ? std::optional(value) : std::nullopt;
}

// Parses "4", or "1-8" for all numbers from 1 to 8.
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

std::vector<int64_t> listed_values(analysis::SweepParameter parameter,
                                   const std::vector<std::string>& texts) {
  std::set<int64_t> values;
  for (const std::string& text : texts) {
    if (parameter == analysis::SweepParameter::kDrives) {
      const std::vector<int64_t> counts = drive_counts(text);
      values.insert(counts.begin(), counts.end());
    } else {
      values.insert(size_or_fail(kSweepOptions[static_cast<int>(parameter)].flag, text));
    }
  }
  return {values.begin(), values.end()};
}

// Returns the default values of a parameter, including the present value.
std::vector<int64_t> default_values(analysis::SweepParameter parameter, int64_t present) {
  std::set<int64_t> values;
  if (present > 0) values.insert(present);
  switch (parameter) {
    case analysis::SweepParameter::kDrives:
      for (int64_t count = 1; count <= 8; ++count) values.insert(count);
      break;
    case analysis::SweepParameter::kHostMemory:
      for (int64_t gigabytes : {0, 64, 128, 256, 512, 768}) values.insert(gigabytes * kGigabyte);
      values.insert(kTerabyte);
      break;
    case analysis::SweepParameter::kBandwidth:
      for (int64_t gigabytes : {4, 8, 16, 24, 32, 48, 64}) values.insert(gigabytes * kGigabyte);
      break;
    case analysis::SweepParameter::kDeviceMemory:
      for (int64_t quarters : {2, 3, 4, 5, 6, 8}) values.insert(present / 4 * quarters);
      break;
    case analysis::SweepParameter::kWriteBudget:
      break;  // depends on the trace: write_budgets()
  }
  return {values.begin(), values.end()};
}

Result<std::vector<int64_t>> WhatIfCommand::values_of(const analysis::SweepRequest& request,
                                                      analysis::SweepParameter parameter) const {
  const std::vector<std::string>& texts = lists.at(parameter);
  if (!texts.empty()) return listed_values(parameter, texts);
  if (parameter == analysis::SweepParameter::kWriteBudget)
    return write_budgets(request.trace, request.machine, request.options, kWriteBudgets);
  return default_values(parameter, current_value(request.machine, parameter));
}

analysis::SweepRequest WhatIfCommand::request() const {
  Inputs given = inputs.read();
  analysis::SweepRequest request{std::move(given.trace),
                                 {std::move(given.hardware), given.limits},
                                 effort.planner_options(),
                                 {},
                                 {}};
  request.tokens_per_step = request.trace.tokens_per_step;
  if (tokens_per_step > 0) request.tokens_per_step = tokens_per_step;
  if (!prices.empty()) request.prices = value_or_fail(analysis::read_prices(prices));
  if (service_years > 0 && !request.prices)
    fail(Status(ErrorCode::kInvalidArgument, "--service-years: expected --prices with it"));
  if (service_years > 0) request.prices->service_years = service_years;
  return request;
}

std::vector<analysis::SweepParameter> WhatIfCommand::chosen() const {
  std::vector<analysis::SweepParameter> chosen;
  for (analysis::SweepParameter parameter : analysis::kSweepParameters)
    if (sweeps.empty() ? !lists.at(parameter).empty()
                       : std::find(sweeps.begin(), sweeps.end(), parameter) != sweeps.end())
      chosen.push_back(parameter);
  if (chosen.empty())
    chosen.assign(analysis::kSweepParameters.begin(), analysis::kSweepParameters.end());
  return chosen;
}

// Combines each point with each value.
std::vector<analysis::SweepPoint> combined(const std::vector<analysis::SweepPoint>& points,
                                           analysis::SweepParameter parameter,
                                           const std::vector<int64_t>& values) {
  std::vector<analysis::SweepPoint> all;
  for (const analysis::SweepPoint& point : points)
    for (int64_t value : values) {
      all.push_back(point);
      all.back().push_back({parameter, value});
    }
  return all;
}

analysis::Sweep WhatIfCommand::swept(const analysis::SweepRequest& request,
                                     const std::vector<analysis::SweepParameter>& parameters,
                                     Progress& progress) const {
  analysis::Sweep sweep{parameters, {}, {}, {}};
  std::vector<analysis::SweepPoint> points = {{}};
  const std::string header = header_of(parameters);
  progress.show(header + " ...");
  for (analysis::SweepParameter parameter : parameters) {
    const Result<std::vector<int64_t>> values = values_of(request, parameter);
    if (!values.ok() || values->empty()) {
      sweep.note = values.ok() ? "nothing is written to the drives: there is no budget to vary"
                               : values.status().message();
      return sweep;
    }
    points = combined(points, parameter, *values);
  }
  sweep.results = what_if(request, points, [&](size_t done) {
    progress.show(fmt::format("{}: {} of {} settings ...", header, done, points.size()));
  });
  // Combinations are not ordered by size, so only prices can tell which one is the cheapest.
  if (parameters.size() == 1 || request.prices)
    sweep.cheapest = cheapest_near_best(sweep.results, kNearBest);
  return sweep;
}

// Returns the headers of the cost columns; none without prices.
std::vector<std::string> cost_headers(const analysis::SweepRequest& request) {
  if (!request.prices) return {};
  const analysis::Prices& prices = *request.prices;
  std::vector<std::string> headers = {prices.currency};
  if (request.tokens_per_step) {
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

std::vector<std::string> row_of(const analysis::SweepResult& result, bool cheapest,
                                size_t cost_columns) {
  const std::string name = point_text(result.point);
  if (!result.status.ok()) return {name, "not possible"};
  const teraio::simulate::Run& run = result.run;
  std::vector<std::string> cells = {
      name,
      format_duration(run.step_ns),
      fmt::format("{:.1f} %", 100 * fraction_of_ideal(run)),
      format_size(run.ssd_bytes_written),
      result.drive_life_years ? life_text(*result.drive_life_years) : "",
      format_size(run.host_peak_bytes)};
  append(cells, cost_columns > 0 ? cost_cells(result.cost) : std::vector<std::string>(),
         cost_columns);
  cells.push_back(cheapest ? "<- cheapest near the best" : "");
  return cells;
}

// Formats each reason once, with the points that it applies to.
std::string reasons_text(const std::vector<analysis::SweepResult>& results) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const analysis::SweepResult& result : results) {
    if (result.status.ok()) continue;
    const std::string& reason = result.status.message();
    const auto same = std::find_if(reasons.begin(), reasons.end(),
                                   [&](const auto& known) { return known.first == reason; });
    if (same == reasons.end())
      reasons.push_back({reason, point_text(result.point)});
    else
      same->second += "; " + point_text(result.point);
  }
  std::string text;
  for (const auto& [reason, settings] : reasons)
    text += fmt::format("{}: not possible: {}\n", settings, reason);
  return text;
}

std::string text_of(const analysis::SweepRequest& request, const analysis::Sweep& sweep) {
  const std::string header = header_of(sweep.parameters);
  if (!sweep.note.empty()) return fmt::format("{}: {}\n", header, sweep.note);
  const std::vector<std::string> costs = cost_headers(request);
  std::vector<std::string> headers = {header,        "step",     "of ideal", "written to drives",
                                      "drives last", "host peak"};
  append(headers, costs, costs.size());
  headers.push_back("");
  Table table(headers);
  for (size_t i = 0; i < sweep.results.size(); ++i)
    table.add(row_of(sweep.results[i], sweep.cheapest == i, costs.size()));
  return table.text() + reasons_text(sweep.results);
}

std::string introduction(const analysis::SweepRequest& request) {
  std::string text = fmt::format("{} on {}: predicted, each setting planned and simulated\n",
                                 request.trace.name, request.machine.hardware.name);
  if (!request.prices) return text;
  text += fmt::format("prices: {} ({})\n", request.prices->name, request.prices->source);
  if (!request.tokens_per_step)
    text +=
        "no cost per token: the trace does not tell the tokens of a step; give "
        "--tokens-per-step\n";
  else if (!request.prices->service_years)
    text += "no cost per token: the price file has no service_years; give --service-years\n";
  return text;
}

void WhatIfCommand::run() const {
  const analysis::SweepRequest asked = request();
  const std::vector<analysis::SweepParameter> parameters = chosen();
  if (!out.empty()) make_folder_or_fail(out);
  fmt::print("{}", introduction(asked));
  std::vector<analysis::Sweep> done;
  Progress progress;
  const auto add = [&](const std::vector<analysis::SweepParameter>& together) {
    done.push_back(swept(asked, together, progress));
    progress.show("");
    fmt::print("\n{}", text_of(asked, done.back()));
    std::fflush(stdout);
  };
  if (grid) add(parameters);
  for (analysis::SweepParameter parameter : parameters)
    if (!grid) add({parameter});
  if (out.empty()) return;
  const std::filesystem::path tables = std::filesystem::path(out) / "what-if.json";
  if (const Status written = write_sweeps(asked, done, tables); !written.ok()) fail(written);
  progress.show("drawing ...");
  if (const Status drawn = draw_figures(tables); !drawn.ok()) fail(drawn);
}

}  // namespace

void add_what_if_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "what-if", "Predict the step time with other drives, memory, rates or write budgets");
  auto options = std::make_shared<WhatIfCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
