#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <ranges>
#include <set>

#include "commands.h"
#include "help.h"
#include "trace/trace_file.h"

namespace teraio::cli {
namespace {

const std::map<std::string, planner::Effort> kEfforts = {{"fast", planner::Effort::kFast},
                                                         {"best", planner::Effort::kBest}};

const std::map<std::string, planner::Recompute> kRecompute = {{"off", planner::Recompute::kOff},
                                                              {"cheap", planner::Recompute::kCheap},
                                                              {"all", planner::Recompute::kAll}};
const std::map<std::string, planner::Prefer> kPrefer = {{"speed", planner::Prefer::kSpeed},
                                                        {"wear", planner::Prefer::kWear}};

std::optional<int64_t> limit_or_fail(std::string_view option, const std::string& text,
                                     int64_t whole_bytes) {
  if (text.empty()) return std::nullopt;
  return size_or_fail(option, text, whole_bytes);
}

std::string limit_text(const std::optional<int64_t>& limit_bytes, std::string_view without) {
  return limit_bytes ? fmt::format("{} bytes", *limit_bytes) : std::string(without);
}

std::vector<std::string> details_of(const Inputs& given) {
  const plan::Limits& limits = given.limits;
  const hardware::Hardware& machine = given.hardware;
  std::vector<std::string> lines = {
      fmt::format("trace: {} (\"{}\"), {} ops, {} tensors", given.trace_file, given.trace.name,
                  given.trace.ops.size(), given.trace.tensors.size()),
      fmt::format("limits: device budget {}, host limit {}, write budget {}",
                  limit_text(limits.device_budget_bytes, "all"),
                  limit_text(limits.host_limit_bytes, "all"),
                  limit_text(limits.write_budget_bytes, "none")),
      fmt::format("machine: {}, device memory {} bytes, host memory {} bytes", machine.name,
                  machine.device_memory_bytes, machine.host.capacity_bytes)};
  for (const hardware::Drive& drive : machine.drives)
    lines.push_back(fmt::format("drive: {}, {} bytes, reads {} bytes/s, writes {} bytes/s",
                                drive.name, drive.capacity_bytes, drive.rates.read_bytes_per_second,
                                drive.rates.write_bytes_per_second));
  return lines;
}

[[noreturn]] void fail_shares(const std::string& expected, std::string_view found) {
  fail(Status(ErrorCode::kInvalidArgument,
              fmt::format("--shares: expected {}, found \"{}\"", expected, found)));
}

double share_or_fail(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !std::isfinite(share) || share < 0)
    fail_shares("numbers that are not negative such as 80,20", text);
  return share;
}

std::vector<double> listed_shares(std::string_view text) {
  std::vector<double> shares;
  for (const auto share : std::views::split(text, ','))
    shares.push_back(share_or_fail({share.begin(), share.end()}));
  return shares;
}

}  // namespace

InputOptions::InputOptions(CLI::App& command, Traces traces) {
  trace_option_ = command.add_option("--trace", traces_)->type_name("FILE")->required();
  if (traces == Traces::kOne) {
    trace_option_->description("Trace of one iteration (.json or .json.gz)")->expected(1);
  } else {
    trace_option_->description(
        "Trace of one iteration (.json or .json.gz); one per pattern where steps differ");
    command
        .add_option("--shares", shares_,
                    "Shares of the steps, one per trace, such as 80,20: shows the mean step")
        ->type_name("N,...");
  }
  hardware_option_ =
      command.add_option("--hardware", hardware_, "Hardware file of the machine (.json)")
          ->type_name("FILE")
          ->required();
  command
      .add_option("--device-budget", device_budget_,
                  "Device memory to use, such as 40GB or 50% (default: all)")
      ->type_name("SIZE");
  command
      .add_option("--host-limit", host_limit_,
                  "Host memory to use, such as 0 or 128GB (default: all)")
      ->type_name("SIZE");
}

void InputOptions::add_write_budget(CLI::App& command) {
  command
      .add_option("--write-budget", write_budget_,
                  "Bytes that an iteration may write to the drives, such as 200GB (default: "
                  "no limit)")
      ->type_name("SIZE");
}

void InputOptions::allow_none() {
  trace_option_->required(false);
  hardware_option_->required(false);
}

void InputOptions::expect_outputs(const std::vector<std::string>& outputs,
                                  const std::vector<std::string>& more_inputs) const {
  std::set<std::filesystem::path> seen;
  const auto is_new = [&seen](const std::string& file) {
    std::error_code error;  // then the path is as it was given
    const std::filesystem::path path = std::filesystem::weakly_canonical(file, error);
    return seen.insert(error ? std::filesystem::path(file) : path).second;
  };
  is_new(hardware_);
  for (const std::vector<std::string>* inputs : {&traces_, &more_inputs})
    for (const std::string& file : *inputs) is_new(file);
  for (const std::string& file : outputs)
    if (!is_new(file))
      fail(Status(ErrorCode::kInvalidArgument,
                  file + " is given twice: expected a file that is neither an input nor another "
                         "output"));
}

Inputs InputOptions::read() const { return std::move(read_patterns().front()); }

std::vector<Inputs> InputOptions::read_patterns() const {
  const std::vector<double> shares = read_shares();
  const analysis::MachineConfig machine = read_machine();
  std::vector<Inputs> patterns;
  for (size_t i = 0; i < traces_.size(); ++i)
    patterns.push_back({value_or_fail(trace::read_trace(traces_[i])), machine.hardware,
                        machine.limits, traces_[i], shares[i]});
  return patterns;
}

analysis::MachineConfig InputOptions::read_machine() const {
  analysis::MachineConfig machine;
  const hardware::Hardware& hardware = machine.hardware =
      value_or_fail(hardware::read_hardware(hardware_));
  plan::Limits& limits = machine.limits;
  limits.device_budget_bytes =
      limit_or_fail("--device-budget", device_budget_, hardware.device_memory_bytes);
  limits.host_limit_bytes =
      limit_or_fail("--host-limit", host_limit_, hardware.host.capacity_bytes);
  limits.write_budget_bytes = limit_or_fail("--write-budget", write_budget_, 0);
  return machine;
}

// They are relative to each other; the result adds up to 1.
std::vector<double> InputOptions::read_shares() const {
  if (shares_.empty() && traces_.size() == 1) return {1};
  std::vector<double> shares;
  if (!shares_.empty()) shares = listed_shares(shares_);
  if (shares.size() != traces_.size())
    fail_shares(fmt::format("{} shares such as 80,20, one per trace", traces_.size()), shares_);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum == 0 || !std::isfinite(sum)) fail_shares("a finite sum above 0", shares_);
  for (double& share : shares) share /= sum;
  return shares;
}

CLI::Validator positive_number() {
  const auto check = [](const std::string& text) {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(text, number);
    if (is_number && std::isfinite(number) && number > 0) return std::string();
    return fmt::format("expected a number above 0, found \"{}\"", text);
  };
  return CLI::Validator(check, "");
}

void expect_one_per_trace(std::string_view option, const std::vector<std::string>& files,
                          const std::vector<Inputs>& patterns) {
  if (files.size() == patterns.size()) return;
  fail(Status(ErrorCode::kInvalidArgument,
              fmt::format("{}: expected one file per trace, {} in all, found {}", option,
                          patterns.size(), files.size())));
}

Status failure_of(const Status& status, const Inputs& pattern, size_t pattern_count) {
  const Status named = pattern_count == 1 ? status : status.with_context(pattern.trace_file);
  return named.with_details(details_of(pattern));
}

EffortOptions::EffortOptions(CLI::App& command) {
  accept_only(command.add_option("--effort", options_.effort, "Planning effort"), kEfforts,
              options_.effort);
  command
      .add_option_function<double>(
          "--time-limit",
          [this](double seconds) {
            options_.time_limit_ns = static_cast<int64_t>(std::min(seconds, 1e9) * 1e9);
          },
          "Seconds after which the planner returns its best plan so far (default: 10, or 60 "
          "for more than 10,000 ops)")
      ->type_name("SECONDS")
      ->check(positive_number());
}

void EffortOptions::add_recompute(CLI::App& command) {
  accept_only(command.add_option(
                  "--recompute", options_.recompute,
                  "Tensors that the plan may discard and make again with the same bits: all, cheap "
                  "(where that takes less than a tenth of moving them) or off"),
              kRecompute, options_.recompute);
  accept_only(command.add_option(
                  "--prefer", options_.prefer,
                  "The fastest plan (speed), or the one that writes least to the drives of those "
                  "at most half a percent slower (wear)"),
              kPrefer, options_.prefer);
}

}  // namespace teraio::cli
