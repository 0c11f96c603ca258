// `teraio bench-storage`: what the engine's own path to a set of drives gives, and what it costs.
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "commands.h"
#include "storage/drive_load.h"

namespace teraio::tools {
namespace {

struct Arguments {
  std::vector<std::string> directories;
  std::string phase = "all";
  std::string file_size = "1GiB";
  std::string request_size = "1MiB";
  std::string backend = "auto";
  int32_t queue_depth = SsdStoreOptions().queue_depth;
  double seconds = 2.0;
  bool json = false;
  bool checksum = false;
};

struct Phase {
  const char* name;
  bool reads;
  bool writes;
};

constexpr Phase kPhases[] = {{"read", true, false}, {"write", false, true}, {"both", true, true}};

struct Measured {
  std::string phase;
  LoadRates rates;
  double cpu_seconds_per_gb = 0;
};

int64_t size_or_fail(const std::string& text) {
  const Result<int64_t> size_bytes = parse_size(text);
  if (!size_bytes) fail(size_bytes.status());
  return *size_bytes;
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t moved_bytes(const DriveLoad& load) {
  const TierCounters counters = load.counters();
  return counters.bytes_read + counters.bytes_written;
}

Measured measure(DriveLoad& load, const Phase& phase, double seconds) {
  const double cpu_before = cpu_seconds();
  const int64_t bytes_before = moved_bytes(load);
  const auto rates = load.run(phase.reads, phase.writes, static_cast<int64_t>(seconds * 1e9));
  if (!rates) fail(rates.status());
  const double moved_gb = static_cast<double>(moved_bytes(load) - bytes_before) * 1e-9;
  return {phase.name, *rates, (cpu_seconds() - cpu_before) / moved_gb};
}

std::unique_ptr<DriveLoad> open_or_fail(const Arguments& arguments) {
  std::vector<SsdDirectory> directories;
  for (const std::string& path : arguments.directories) directories.push_back({path, 0, 0});
  SsdStoreOptions options;
  options.request_bytes = size_or_fail(arguments.request_size);
  options.queue_depth = arguments.queue_depth;
  options.checksum = arguments.checksum;
  options.backend = arguments.backend == "uring"     ? IoBackend::kUring
                    : arguments.backend == "threads" ? IoBackend::kThreads
                                                     : IoBackend::kAuto;
  auto load = DriveLoad::open(directories, size_or_fail(arguments.file_size), options);
  if (!load) fail(load.status());
  return std::move(*load);
}

void print_json(const std::vector<Measured>& measured, const DriveLoad& load) {
  nlohmann::ordered_json json;
  for (const Measured& each : measured) {
    json["phases"].push_back({{"phase", each.phase},
                              {"read_bytes_per_second", each.rates.read},
                              {"write_bytes_per_second", each.rates.write},
                              {"cpu_seconds_per_gb", each.cpu_seconds_per_gb}});
  }
  for (const DriveCounters& drive : load.counters().drives) {
    json["drives"].push_back({{"name", drive.name}, {"io_path", drive.io_path}});
  }
  fmt::print("{}\n", json.dump(1));
}

void print_table(const std::vector<Measured>& measured, const DriveLoad& load) {
  for (const DriveCounters& drive : load.counters().drives) {
    fmt::print("{}: {}\n", drive.name, drive.io_path);
  }
  fmt::print("\n{:<8} {:>12} {:>12} {:>14}\n", "", "read/s", "write/s", "CPU s per GB");
  for (const Measured& each : measured) {
    fmt::print("{:<8} {:>12} {:>12} {:>14.4f}\n", each.phase,
               format_size(static_cast<int64_t>(each.rates.read)),
               format_size(static_cast<int64_t>(each.rates.write)), each.cpu_seconds_per_gb);
  }
}

void bench(const Arguments& arguments) {
  const std::unique_ptr<DriveLoad> load = open_or_fail(arguments);
  std::vector<Measured> measured;
  for (const Phase& phase : kPhases) {
    if (arguments.phase != "all" && arguments.phase != phase.name) continue;
    measured.push_back(measure(*load, phase, arguments.seconds));
  }
  arguments.json ? print_json(measured, *load) : print_table(measured, *load);
}

}  // namespace

void add_bench_storage_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench-storage", "Measure the path to the drives");
  auto arguments = std::make_shared<Arguments>();
  arguments->directories = {"."};
  command->add_option("--ssd", arguments->directories,
                      "Directory on a drive; once per drive, used together (default: here)");
  command->add_option("--phase", arguments->phase, "What to measure")
      ->check(CLI::IsMember({"all", "read", "write", "both"}))
      ->capture_default_str();
  command->add_option("--file-size", arguments->file_size, "Bytes to move about in")
      ->capture_default_str();
  command->add_option("--request-size", arguments->request_size)->capture_default_str();
  command->add_option("--queue-depth", arguments->queue_depth, "Per drive and direction")
      ->capture_default_str();
  command->add_option("--backend", arguments->backend)
      ->check(CLI::IsMember({"auto", "uring", "threads"}))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "Per measurement")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command->add_flag("--checksum", arguments->checksum, "Keep and check checksums");
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace teraio::tools
