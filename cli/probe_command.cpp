// `teraio probe`: measures the drives of directories and writes the hardware file, or measures the
// engine (--bench).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "commands.h"
#include "drives/drive_endurance.h"
#include "drives/drive_identity.h"
#include "hardware/hardware.h"
#include "probe/probe_cache.h"
#include "probe_bench.h"
#include "progress.h"
#include "table.h"

namespace teraio::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> directories;
  std::string out = "hardware.json";
  std::string device_memory;
  std::string host_memory = "0";
  std::string name;
  std::string rated_writes;
  double seconds = 0;
  bool fresh = false;
  bool thorough = false;
  bool bench = false;
  std::string device;
  std::string size = "1GiB";
  bool json = false;
};

constexpr double kBenchSeconds = 2;

fs::path cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "teraio";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/tmp") / ".cache/teraio";
}

int64_t system_memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

std::string machine_name() {
  char name[256] = "this machine";
  gethostname(name, sizeof(name) - 1);
  return name;
}

const char* origin_text(probe::RatesOrigin origin) {
  switch (origin) {
    case probe::RatesOrigin::kShortProbe:
      return "short probe";
    case probe::RatesOrigin::kThoroughProbe:
      return "thorough probe";
    case probe::RatesOrigin::kRuns:
      return "training runs";
  }
  return "";
}

// Returns the kept measurement, if the options accept it.
std::optional<probe::DriveProbe> kept_probe(const std::string& directory,
                                            const Arguments& arguments) {
  if (arguments.fresh) return std::nullopt;
  auto kept = probe::load_cached_probe(cache_directory(), directory);
  if (kept && arguments.thorough && kept->origin != probe::RatesOrigin::kThoroughProbe)
    return std::nullopt;
  return kept;
}

probe::DriveProbe probe_or_fail(const std::string& directory, const Arguments& arguments) {
  if (auto kept = kept_probe(directory, arguments)) {
    fmt::print("{}: rates are known from: {} (--fresh measures again)\n", kept->name,
               origin_text(kept->origin));
    return *kept;
  }
  Progress progress;
  probe::ProbeOptions options =
      arguments.thorough ? probe::thorough_probe() : probe::ProbeOptions();
  if (arguments.seconds > 0)
    options.sustained.longest_ns = static_cast<int64_t>(arguments.seconds * 1e9);
  options.progress = [&](const std::string& line) {
    progress.show("");
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  options.on_share = [&](double share) { progress.show_share(directory, share); };
  const Result<probe::DriveProbe> probe = probe_directory(directory, options);
  if (!probe.ok()) fail(probe.status());
  if (const Status saved = save_cached_probe(cache_directory(), *probe); !saved.ok())
    fmt::print(stderr,
               "teraio: the measurement cannot be kept: {}. The next command measures again{}\n",
               saved.message(), detail_lines(saved));
  return *probe;
}

// Keeps one directory per drive, because a second directory on a drive adds no speed.
std::vector<std::string> distinct_drives(const std::vector<std::string>& directories) {
  std::vector<std::string> distinct;
  std::map<std::string, std::string> directory_by_drive;
  for (const std::string& directory : directories) {
    const Result<drives::DriveIdentity> drive = drives::identify_drive(directory);
    if (!drive.ok()) fail(drive.status());
    const auto [same, is_new] = directory_by_drive.emplace(drive->name, directory);
    if (is_new)
      distinct.push_back(directory);
    else
      fmt::print("{}: {} and {} are on one drive, counted once\n", drive->name, same->second,
                 directory);
  }
  return distinct;
}

// Measures the bytes per second that the CPU copies: the link of a device that is host memory.
int64_t measure_copy_rate() {
  const std::vector<char> from(64 * kMiB, 1);
  std::vector<char> to(from.size(), 2);
  const SteadyClock clock;
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (int repeat = 0; repeat < 5; ++repeat) {
    const int64_t start_ns = clock.now_ns();
    std::memcpy(to.data(), from.data(), from.size());
    best_ns = std::min(best_ns, std::max<int64_t>(1, clock.now_ns() - start_ns));
  }
  return static_cast<int64_t>(static_cast<double>(to.size()) * 1e9 / static_cast<double>(best_ns));
}

// What the options say of the machine: the hardware without drives.
hardware::Hardware machine_or_fail(const Arguments& arguments) {
  hardware::Hardware hardware;
  hardware.name = arguments.name.empty() ? machine_name() : arguments.name;
  hardware.device_memory_bytes =
      arguments.device_memory.empty()
          ? system_memory_bytes()
          : size_or_fail("--device-memory", arguments.device_memory, system_memory_bytes());
  const int64_t link_bytes_per_second = measure_copy_rate();
  hardware.device_link = {link_bytes_per_second, link_bytes_per_second};
  hardware.host = {size_or_fail("--host", arguments.host_memory, system_memory_bytes()),
                   hardware.device_link};
  return hardware;
}

void add_drives(const std::vector<probe::DriveProbe>& probes,
                std::optional<int64_t> rated_bytes_written, hardware::Hardware& hardware) {
  for (const probe::DriveProbe& probe : probes) {
    hardware::Drive drive;
    drive.name = probe.name;
    drive.capacity_bytes = probe.capacity_bytes;
    drive.rates = probe.rates;
    drive.duplex = probe.duplex;
    drive.rated_bytes_written =
        rated_bytes_written ? *rated_bytes_written : drives::rated_bytes_written(probe.directory);
    hardware.drives.push_back(drive);
    hardware.request_latency_ns = std::max(hardware.request_latency_ns, probe.request_latency_ns);
  }
}

void print_table(const std::vector<probe::DriveProbe>& probes) {
  Table table({"drive", "free", "read/s", "write/s", "peak read/s", "peak write/s", "duplex",
               "latency", "rates from"});
  const auto peak = [](int64_t bytes_per_second) {
    return bytes_per_second > 0 ? format_size(bytes_per_second) : "unknown";
  };
  bool is_any_estimated = false;
  for (const probe::DriveProbe& probe : probes) {
    table.add({probe.name, format_size(probe.capacity_bytes),
               format_size(probe.rates.read_bytes_per_second),
               format_size(probe.rates.write_bytes_per_second),
               peak(probe.peak_rates.read_bytes_per_second),
               peak(probe.peak_rates.write_bytes_per_second), fmt::format("{:.2f}", probe.duplex),
               format_duration(probe.request_latency_ns), origin_text(probe.origin)});
    is_any_estimated |= probe.origin == probe::RatesOrigin::kShortProbe;
  }
  fmt::print("\n{}", table.text());
  if (is_any_estimated)
    fmt::print(
        "\nA short probe does not fill the caches of a drive: its rates are an estimate, three\n"
        "quarters of what it measured. --thorough measures the rates that the drive keeps.\n");
}

void probe(const Arguments& arguments) {
  // All sizes are read before minutes of measuring.
  hardware::Hardware hardware = machine_or_fail(arguments);
  std::optional<int64_t> rated_bytes_written;
  if (!arguments.rated_writes.empty())
    rated_bytes_written = size_or_fail("--rated-writes", arguments.rated_writes);
  std::vector<probe::DriveProbe> probes;
  for (const std::string& directory : distinct_drives(arguments.directories))
    probes.push_back(probe_or_fail(directory, arguments));
  print_table(probes);
  add_drives(probes, rated_bytes_written, hardware);
  if (const Status written = write_hardware(hardware, arguments.out); !written.ok()) fail(written);
  fmt::print("\nwrote {}\n", arguments.out);
}

void bench(const Arguments& arguments) {
  const double seconds = arguments.seconds > 0 ? arguments.seconds : kBenchSeconds;
  run_bench({arguments.directories, arguments.device, size_or_fail("--size", arguments.size),
             static_cast<int64_t>(seconds * 1e9), arguments.json});
}

void add_bench_options(CLI::App& command, Arguments& arguments) {
  CLI::Option* bench = command.add_flag(
      "--bench", arguments.bench, "Measure what the engine reaches, and write no hardware file");
  for (const char* name :
       {"--out", "--device-memory", "--host", "--name", "--rated-writes", "--thorough", "--fresh"})
    command.get_option(name)->excludes(bench);
  command
      .add_option("--device", arguments.device,
                  "With --bench: measure between this device (cpu, cuda or cuda:NUMBER) and its "
                  "tiers")
      ->type_name("DEVICE")
      ->needs(bench);
  command
      .add_option("--size", arguments.size, "With --bench: bytes of each tier that transfers use")
      ->type_name("SIZE")
      ->capture_default_str()
      ->needs(bench);
  command.add_flag("--json", arguments.json, "With --bench: print JSON for scripts")->needs(bench);
}

}  // namespace

void add_probe_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("probe", "Measure drives and write the hardware file");
  auto arguments = std::make_shared<Arguments>();
  arguments->directories = {"."};
  command
      ->add_option("--ssd", arguments->directories,
                   "Directory on a drive; repeat for several drives (default: the current one)")
      ->type_name("DIR");
  command->add_option("-o,--out", arguments->out, "Hardware file to write")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--device-memory", arguments->device_memory,
                   "Device memory, such as 80GiB (default: the memory of this machine)")
      ->type_name("SIZE");
  command
      ->add_option("--host", arguments->host_memory,
                   "Memory of the host tier, such as 64GiB or 20%")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--name", arguments->name, "Name of the machine in the file")
      ->type_name("NAME");
  command
      ->add_option("--rated-writes", arguments->rated_writes,
                   "Rated writes of each drive, such as 1200TB (default: from a table of models)")
      ->type_name("SIZE");
  command
      ->add_option(
          "--seconds", arguments->seconds,
          "Most seconds for each of the three measurements, which end when rates are steady "
          "(default: 5, with --thorough 15); with --bench, the seconds of each (default: 2)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 600.0));
  command->add_flag("--thorough", arguments->thorough,
                    "Measure until caches are full: writes up to 52 GB per drive instead of 2 GB");
  command->add_flag("--fresh", arguments->fresh,
                    "Measure again even when a measurement of the drive is kept");
  add_bench_options(*command, *arguments);
  command->callback([arguments] { arguments->bench ? bench(*arguments) : probe(*arguments); });
}

}  // namespace teraio::cli
