// `teraio bench-link`: measures the transfer rates of the engine between a device and its tiers,
// next to those of bare copies on the same device.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "commands.h"
#include "device/cpu_device.h"
#include "device/cuda_device.h"
#include "device/host_memory.h"
#include "device_load_generator.h"
#include "storage/host_store.h"
#include "storage/ssd_store.h"

namespace teraio::cli {
namespace {

struct Arguments {
  std::string device = "cpu";
  std::string directory;
  std::string tier_size = "1GiB";
  int32_t rounds = 3;
  double seconds = 0.5;
  bool json = false;
};

struct Phase {
  const char* name;
  bool reads;
  bool writes;
};

constexpr Phase kPhases[] = {{"read", true, false}, {"write", false, true}, {"both", true, true}};
constexpr int64_t kDeviceBytes = 16 * kLoadTransferBytes;

struct Measured {
  std::string path;  // "bare", "host", "ssd"
  std::string phase;
  int32_t round = 0;
  probe::LoadRates rates;
};

struct Report {
  std::vector<Measured> measured;
  std::string ssd_io_path;
  std::string gpu_direct_off;
};

std::unique_ptr<device::Device> open_device(const std::string& name) {
  if (name == "cpu") return value_or_fail(device::make_cpu_device(kDeviceBytes));
  const std::string ordinal = name == "cuda" ? "0" : name.substr(name.find(':') + 1);
  if (name.rfind("cuda", 0) != 0 || ordinal.find_first_not_of("0123456789") != std::string::npos)
    fail(Status(ErrorCode::kInvalidArgument,
                "--device " + name + ": expected cpu, cuda or cuda:NUMBER"));
  return value_or_fail(
      device::make_cuda_device({.ordinal = std::stoi(ordinal), .budget_bytes = kDeviceBytes}));
}

using Measure = std::function<Result<probe::LoadRates>(const Phase&, int64_t duration_ns)>;

void add(Report& report, const std::string& path, const Phase& phase, int32_t round,
         const Measure& measure, const Arguments& arguments) {
  const auto duration_ns = static_cast<int64_t>(arguments.seconds * 1e9);
  report.measured.push_back({path, phase.name, round, value_or_fail(measure(phase, duration_ns))});
}

// Bare copies and the store take turns, so that a change over time affects both.
void measure_host(Report& report, device::Device& device, const Arguments& arguments) {
  const SteadyClock clock;
  const int64_t tier_bytes = size_or_fail("--tier-size", arguments.tier_size);
  const int64_t room_bytes = tier_bytes + 2 * probe::kLoadTransfersAtOnce * kLoadTransferBytes;
  const auto host = value_or_fail(device::HostMemory::map(4 * kLoadTransferBytes, device));
  const auto store = value_or_fail(storage::open_host_store(room_bytes, device, clock));
  const auto load = value_or_fail(DeviceLoadGenerator::open(*store, device, tier_bytes));
  const Measure bare = [&](const Phase& phase, int64_t duration_ns) {
    return measure_bare_copies(device, host, phase.reads, phase.writes, duration_ns);
  };
  const Measure ours = [&](const Phase& phase, int64_t duration_ns) {
    return load->run(phase.reads, phase.writes, duration_ns);
  };
  for (const Phase& phase : kPhases) value_or_fail(bare(phase, 1'000'000));  // touches all pages
  for (int32_t round = 0; round < arguments.rounds; ++round) {
    for (const Phase& phase : kPhases) {
      add(report, "bare", phase, round, bare, arguments);
      add(report, "host", phase, round, ours, arguments);
    }
  }
}

void measure_ssd(Report& report, device::Device& device, const Arguments& arguments) {
  const SteadyClock clock;
  const int64_t tier_bytes = size_or_fail("--tier-size", arguments.tier_size);
  storage::SsdStoreOptions options;
  options.capacity_bytes = tier_bytes + 2 * probe::kLoadTransfersAtOnce * kLoadTransferBytes;
  options.device = &device;
  const auto store = value_or_fail(open_ssd_store({{arguments.directory}}, options, clock));
  const auto load = value_or_fail(DeviceLoadGenerator::open(*store, device, tier_bytes));
  const Measure ours = [&](const Phase& phase, int64_t duration_ns) {
    return load->run(phase.reads, phase.writes, duration_ns);
  };
  for (int32_t round = 0; round < arguments.rounds; ++round)
    for (const Phase& phase : kPhases) add(report, "ssd", phase, round, ours, arguments);
  const storage::TierCounters counters = store->counters();
  report.ssd_io_path = counters.drives.front().io_path;
  report.gpu_direct_off = counters.drives.front().gpu_direct_off;
}

void print_json(const Report& report, const std::string& device) {
  nlohmann::ordered_json json;
  json["device"] = device;
  json["transfer_bytes"] = kLoadTransferBytes;
  for (const Measured& each : report.measured)
    json["measured"].push_back({{"path", each.path},
                                {"phase", each.phase},
                                {"round", each.round},
                                {"read_bytes_per_second", each.rates.read},
                                {"write_bytes_per_second", each.rates.write}});
  json["ssd_io_path"] = report.ssd_io_path;
  json["gpu_direct_off"] = report.gpu_direct_off;
  fmt::print("{}\n", json.dump(1));
}

void print_table(const Report& report) {
  fmt::print("{:<6} {:<6} {:>12} {:>12}\n", "path", "phase", "read/s", "write/s");
  for (const Measured& each : report.measured)
    fmt::print("{:<6} {:<6} {:>12} {:>12}\n", each.path, each.phase,
               format_size(static_cast<int64_t>(each.rates.read)),
               format_size(static_cast<int64_t>(each.rates.write)));
}

void bench(const Arguments& arguments) {
  const std::unique_ptr<device::Device> device = open_device(arguments.device);
  Report report;
  measure_host(report, *device, arguments);
  if (!arguments.directory.empty()) measure_ssd(report, *device, arguments);
  arguments.json ? print_json(report, arguments.device) : print_table(report);
}

}  // namespace

void add_bench_link_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench-link", "Measure the transfer rates between a device and its tiers");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--device", arguments->device, "Device: cpu, cuda or cuda:NUMBER")
      ->type_name("DEVICE")
      ->capture_default_str();
  command->add_option("--ssd", arguments->directory, "Directory on a drive (default: no drive)")
      ->type_name("DIR");
  command->add_option("--tier-size", arguments->tier_size, "Bytes of each tier that transfers use")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "Number of measurements of each kind")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "Seconds per measurement")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON for scripts");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace teraio::cli
