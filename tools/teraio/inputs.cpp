#include "inputs.h"

#include "base/units.h"
#include "commands.h"
#include "trace/trace_file.h"

namespace teraio::tools {
namespace {

template <typename T>
T value_or_fail(Result<T> result) {
  if (!result.ok()) fail(result.status());
  return std::move(*result);
}

std::optional<int64_t> limit_or_fail(const std::string& text, int64_t whole_bytes) {
  if (text.empty()) return std::nullopt;
  return value_or_fail(parse_size(text, whole_bytes));
}

}  // namespace

InputOptions::InputOptions(CLI::App& command) {
  command.add_option("--trace", trace_, "What one iteration does (.json or .json.gz)")->required();
  command.add_option("--hardware", hardware_, "What the machine can do")->required();
  command.add_option("--device-budget", device_budget_,
                     "Device memory to use, such as 40GB or 50% (default: all)");
  command.add_option("--host-limit", host_limit_,
                     "Host memory to use, such as 0 or 128GB (default: all)");
}

Inputs InputOptions::read() const {
  Inputs inputs;
  inputs.trace = value_or_fail(read_trace(trace_));
  inputs.hardware = value_or_fail(read_hardware(hardware_));
  inputs.limits.device_budget_bytes =
      limit_or_fail(device_budget_, inputs.hardware.device_memory_bytes);
  inputs.limits.host_limit_bytes = limit_or_fail(host_limit_, inputs.hardware.host.capacity_bytes);
  return inputs;
}

}  // namespace teraio::tools
