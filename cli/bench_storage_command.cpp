// `teraio bench-storage`: measures the rates of the engine's path to a set of drives, and its cost
// in CPU time and memory.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "commands.h"
#include "drives/drive_endurance.h"
#include "drives/drive_facts.h"
#include "drives/drive_identity.h"
#include "help.h"
#include "probe/drive_load_generator.h"

namespace teraio::cli {
namespace {

struct Arguments {
  std::vector<std::string> directories;
  std::string phase = "all";
  std::string file_size = "1GiB";
  std::string request_size = "1MiB";
  std::string backend = "auto";
  std::string rated_writes;
  int32_t queue_depth = storage::SsdStoreOptions().queue_depth;
  int32_t write_depth = storage::SsdStoreOptions().planned_write_depth;
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
  probe::LoadRates rates;
  double cpu_seconds_per_gb = 0;
};

struct Wear {
  std::string drive;
  int64_t bytes_written = 0;  // by all programs, as the system counts
  int64_t rated_bytes = 0;    // 0: unknown
};

struct Report {
  std::vector<probe::LoadRates> alone;  // per drive; empty for a single drive
  std::vector<Measured> measured;
  std::optional<probe::UrgentLatency> urgent;
  storage::TierCounters counters;
  int64_t memory_bytes = 0;  // of the store and its threads
  std::vector<Wear> wear;    // of the drives with counters
};

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t resident_bytes() {
  int64_t size_pages = 0;
  int64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> size_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t moved_bytes(const probe::DriveLoadGenerator& load) {
  const storage::TierCounters counters = load.counters();
  return counters.bytes_read + counters.bytes_written;
}

Measured measure(probe::DriveLoadGenerator& load, const Phase& phase, double seconds) {
  const double cpu_before = cpu_seconds();
  const int64_t bytes_before = moved_bytes(load);
  const auto rates = load.run(phase.reads, phase.writes, static_cast<int64_t>(seconds * 1e9));
  if (!rates.ok()) fail(rates.status());
  const double moved_gb = static_cast<double>(moved_bytes(load) - bytes_before) * 1e-9;
  return {phase.name, *rates, (cpu_seconds() - cpu_before) / moved_gb};
}

std::unique_ptr<probe::DriveLoadGenerator> open_or_fail(
    const std::vector<storage::SsdDirectory>& directories, const Arguments& arguments) {
  storage::SsdStoreOptions options;
  options.request_bytes = size_or_fail("--request-size", arguments.request_size);
  options.queue_depth = arguments.queue_depth;
  options.planned_write_depth = arguments.write_depth;
  options.checksum = arguments.checksum;
  options.backend = arguments.backend == "uring"     ? storage::IoBackend::kUring
                    : arguments.backend == "threads" ? storage::IoBackend::kThreads
                                                     : storage::IoBackend::kAuto;
  auto load = probe::DriveLoadGenerator::open(
      directories, size_or_fail("--file-size", arguments.file_size), options);
  if (!load.ok()) fail(load.status());
  return std::move(*load);
}

// Measures each drive alone, because striping follows these rates, as in a training run after
// `teraio probe`.
std::vector<probe::LoadRates> measure_alone(std::vector<storage::SsdDirectory>& directories,
                                            const Arguments& arguments) {
  std::vector<probe::LoadRates> rates;
  for (storage::SsdDirectory& directory : directories) {
    const auto load = open_or_fail({directory}, arguments);
    rates.push_back({measure(*load, kPhases[0], arguments.seconds).rates.read,
                     measure(*load, kPhases[1], arguments.seconds).rates.write});
    directory.rates = {static_cast<int64_t>(rates.back().read),
                       static_cast<int64_t>(rates.back().write)};
  }
  return rates;
}

// Returns the counters of the system for the drives, each drive once.
std::vector<Wear> count_writes(const Arguments& arguments) {
  std::vector<Wear> counts;
  for (const std::string& directory : arguments.directories) {
    const Result<drives::DriveIdentity> drive = drives::identify_drive(directory);
    if (!drive.ok() || drive->folder.empty()) continue;
    const drives::DriveFacts facts = drives::read_drive_facts(drive->folder);
    const bool is_known = std::any_of(counts.begin(), counts.end(),
                                      [&](const Wear& wear) { return wear.drive == facts.name; });
    if (is_known) continue;
    const auto rating = drives::rated_endurance(facts.model);
    const int64_t rated_bytes = !arguments.rated_writes.empty()
                                    ? size_or_fail("--rated-writes", arguments.rated_writes)
                                    : (rating ? rating->bytes_written : 0);
    counts.push_back({facts.name, facts.bytes_written, rated_bytes});
  }
  return counts;
}

void print_json(const Report& report) {
  nlohmann::ordered_json json;
  for (const probe::LoadRates& rates : report.alone)
    json["alone"].push_back(
        {{"read_bytes_per_second", rates.read}, {"write_bytes_per_second", rates.write}});
  for (const Measured& each : report.measured)
    json["phases"].push_back({{"phase", each.phase},
                              {"read_bytes_per_second", each.rates.read},
                              {"write_bytes_per_second", each.rates.write},
                              {"cpu_seconds_per_gb", each.cpu_seconds_per_gb}});
  if (report.urgent)
    json["urgent_read"] = {{"idle_ns", report.urgent->idle_ns},
                           {"behind_writes_ns", report.urgent->busy_ns},
                           {"idle_write_ns", report.urgent->write_ns}};
  json["memory_bytes"] = report.memory_bytes;
  for (const storage::DriveCounters& drive : report.counters.drives)
    json["drives"].push_back(
        {{"name", drive.name}, {"io_path", drive.io_path}, {"bytes_written", drive.bytes_written}});
  for (const Wear& wear : report.wear)
    json["wear"].push_back({{"drive", wear.drive},
                            {"bytes_written_by_all", wear.bytes_written},
                            {"rated_bytes_written", wear.rated_bytes}});
  fmt::print("{}\n", json.dump(1));
}

std::string bytes_text(double bytes) { return format_size(static_cast<int64_t>(bytes)); }

void print_wear(const Report& report) {
  double write_rate = 0;
  for (const Measured& each : report.measured) write_rate = std::max(write_rate, each.rates.write);
  for (const Wear& wear : report.wear) {
    fmt::print("{}: {} were written during the measurements", wear.drive,
               format_size(wear.bytes_written));
    if (wear.rated_bytes > 0 && report.wear.size() == 1)
      fmt::print("; at the fastest rate above, it reaches its rated {} in {}",
                 format_size(wear.rated_bytes),
                 drives::describe_life(wear.rated_bytes, write_rate));
    fmt::print("\n");
  }
}

void print_table(const Report& report) {
  for (size_t i = 0; i < report.counters.drives.size(); ++i) {
    const storage::DriveCounters& drive = report.counters.drives[i];
    fmt::print("{}: {}", drive.name, drive.io_path);
    if (i < report.alone.size())
      fmt::print(", alone {}/s read and {}/s written", bytes_text(report.alone[i].read),
                 bytes_text(report.alone[i].write));
    fmt::print("\n");
  }
  fmt::print("\n{:<8} {:>12} {:>12} {:>14}\n", "", "read/s", "write/s", "CPU s per GB");
  for (const Measured& each : report.measured)
    fmt::print("{:<8} {:>12} {:>12} {:>14.4f}\n", each.phase, bytes_text(each.rates.read),
               bytes_text(each.rates.write), each.cpu_seconds_per_gb);
  if (report.urgent)
    fmt::print("\nurgent read of a request: {} on idle drives, {} behind a full queue of writes\n",
               format_duration(report.urgent->idle_ns), format_duration(report.urgent->busy_ns));
  fmt::print("memory of the store: {}\n", format_size(report.memory_bytes));
  print_wear(report);
}

void bench(const Arguments& arguments) {
  Report report;
  std::vector<storage::SsdDirectory> directories;
  for (const std::string& path : arguments.directories) directories.push_back({path, 0, 0});
  const std::vector<Wear> before = count_writes(arguments);
  if (directories.size() > 1) report.alone = measure_alone(directories, arguments);
  const int64_t memory_before = resident_bytes();
  const std::unique_ptr<probe::DriveLoadGenerator> load = open_or_fail(directories, arguments);
  for (const Phase& phase : kPhases) {
    if (arguments.phase != "all" && arguments.phase != phase.name) continue;
    report.measured.push_back(measure(*load, phase, arguments.seconds));
  }
  if (arguments.phase == "all" || arguments.phase == "urgent") {
    const auto urgent = load->urgent_latency();
    if (!urgent.ok()) fail(urgent.status());
    report.urgent = *urgent;
  }
  report.memory_bytes =
      std::max<int64_t>(0, resident_bytes() - memory_before - load->buffer_bytes());
  report.counters = load->counters();
  report.wear = count_writes(arguments);
  for (size_t i = 0; i < report.wear.size() && i < before.size(); ++i)
    report.wear[i].bytes_written -= before[i].bytes_written;
  arguments.json ? print_json(report) : print_table(report);
}

}  // namespace

void add_bench_storage_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bench-storage", "Measure the transfer rates and the cost of the path to the drives");
  auto arguments = std::make_shared<Arguments>();
  arguments->directories = {"."};
  command
      ->add_option("--ssd", arguments->directories,
                   "Directory on a drive; repeat for several drives (default: the current one)")
      ->type_name("DIR");
  accept_only(command->add_option("--phase", arguments->phase, "What to measure"),
              {"all", "read", "write", "both", "urgent"})
      ->capture_default_str();
  command->add_option("--file-size", arguments->file_size, "Bytes on the drives that transfers use")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--request-size", arguments->request_size, "Bytes per request")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--queue-depth", arguments->queue_depth,
                   "Requests in flight per drive and direction")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--write-depth", arguments->write_depth,
                   "Most planned writes in flight per drive")
      ->type_name("N")
      ->capture_default_str();
  accept_only(command->add_option("--backend", arguments->backend, "How requests are issued"),
              {"auto", "uring", "threads"})
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "Seconds per measurement")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--rated-writes", arguments->rated_writes,
                   "Rated writes of a drive, such as 1200TB (default: from a table of models)")
      ->type_name("SIZE");
  command->add_flag("--checksum", arguments->checksum, "Keep and check checksums");
  command->add_flag("--json", arguments->json, "Print JSON for scripts");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace teraio::cli
