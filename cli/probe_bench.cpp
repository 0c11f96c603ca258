#include "probe_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/clock.h"
#include "base/units.h"
#include "commands.h"
#include "device/cpu_device.h"
#include "device/cuda_device.h"
#include "probe/drive_load_generator.h"
#include "probe/link_rate.h"
#include "storage/host_store.h"
#include "storage/ssd_store.h"
#include "table.h"

namespace teraio::cli {
namespace {

constexpr int64_t kDeviceTransferBytes = 64 * kMiB;  // typical of tensors
constexpr int64_t kDeviceBytes = 16 * kDeviceTransferBytes;

struct Phase {
  const char* name;
  bool reads;
  bool writes;
};

constexpr Phase kRead = {"read", true, false};
constexpr Phase kWrite = {"write", false, true};
constexpr Phase kBoth = {"both", true, true};

struct Measured {
  std::string path;  // "bare" copies of the device, or the engine's "host" or "ssd" tier
  std::string phase;
  probe::LoadRates rates;
  double cpu_seconds_per_gb = 0;
};

struct Results {
  std::vector<probe::LoadRates> alone;  // per drive; empty for a single drive and with a device
  std::vector<Measured> measured;
  std::vector<storage::DriveCounters> drives;
  std::optional<probe::UrgentLatency> urgent;
  std::optional<int64_t> memory_bytes;  // of the store and its threads
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

int64_t moved_bytes(const storage::TierCounters& counters) {
  return counters.bytes_read + counters.bytes_written;
}

// A tier under load.
struct Path {
  std::string name;
  std::function<Result<probe::LoadRates>(const Phase&)> run;
  std::function<storage::TierCounters()> counters;
};

Measured measure(const Path& path, const Phase& phase) {
  const double cpu_before = cpu_seconds();
  const int64_t bytes_before = moved_bytes(path.counters());
  const probe::LoadRates rates = value_or_fail(path.run(phase));
  const double moved_gb = static_cast<double>(moved_bytes(path.counters()) - bytes_before) * 1e-9;
  return {path.name, phase.name, rates, (cpu_seconds() - cpu_before) / moved_gb};
}

void measure_phases(const Path& path, Results& results) {
  for (const Phase& phase : {kRead, kWrite, kBoth})
    results.measured.push_back(measure(path, phase));
}

std::unique_ptr<probe::DriveLoadGenerator> open_drives(
    const std::vector<storage::SsdDirectory>& directories, const BenchOptions& options) {
  return value_or_fail(probe::DriveLoadGenerator::open(directories, options.size_bytes, {}));
}

Path path_of(probe::DriveLoadGenerator& load, const BenchOptions& options) {
  const auto run = [&](const Phase& phase) {
    return load.run(phase.reads, phase.writes, options.duration_ns);
  };
  return {"ssd", run, [&] { return load.counters(); }};
}

// Measures each drive alone, because striping follows these rates, as in a training run after
// `teraio probe`.
void measure_alone(std::vector<storage::SsdDirectory>& directories, const BenchOptions& options,
                   Results& results) {
  for (storage::SsdDirectory& directory : directories) {
    const auto load = open_drives({directory}, options);
    const Path path = path_of(*load, options);
    const probe::LoadRates rates = {measure(path, kRead).rates.read,
                                    measure(path, kWrite).rates.write};
    directory.rates = {static_cast<int64_t>(rates.read), static_cast<int64_t>(rates.write)};
    results.alone.push_back(rates);
  }
}

std::vector<storage::SsdDirectory> directories_of(const BenchOptions& options) {
  std::vector<storage::SsdDirectory> directories;
  for (const std::string& path : options.directories) directories.push_back({path, 0, 0});
  return directories;
}

Results measure_drives(const BenchOptions& options) {
  Results results;
  std::vector<storage::SsdDirectory> directories = directories_of(options);
  if (directories.size() > 1) measure_alone(directories, options, results);
  const int64_t memory_before = resident_bytes();
  const auto load = open_drives(directories, options);
  measure_phases(path_of(*load, options), results);
  results.urgent = value_or_fail(load->urgent_latency());
  results.memory_bytes =
      std::max<int64_t>(0, resident_bytes() - memory_before - load->buffer_bytes());
  results.drives = load->counters().drives;
  return results;
}

std::unique_ptr<device::Device> open_device(const std::string& name) {
  if (name == "cpu") return value_or_fail(device::make_cpu_device(kDeviceBytes));
  const std::string ordinal = name == "cuda" ? "0" : name.substr(name.find(':') + 1);
  if (name.rfind("cuda", 0) != 0 || ordinal.find_first_not_of("0123456789") != std::string::npos)
    fail(Status(ErrorCode::kInvalidArgument,
                "--device " + name + ": expected cpu, cuda or cuda:NUMBER"));
  return value_or_fail(
      device::make_cuda_device({.ordinal = std::stoi(ordinal), .budget_bytes = kDeviceBytes}));
}

// Device memory of transfers, with bytes that a drive cannot compress.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(device::Device& device) : device_(device) {}
  ~DeviceBuffers() {
    for (const auto& lanes : memory_)
      for (std::byte* buffer : lanes) device_.release(buffer);
  }

  const probe::LoadMemory& memory() const { return memory_; }

  Status allocate() {
    std::vector<uint64_t> noise(kDeviceTransferBytes / 8);
    std::generate(noise.begin(), noise.end(), std::mt19937_64(20260101));
    for (auto& lanes : memory_) {
      while (lanes.size() < probe::kLoadTransfersAtOnce) {
        std::byte* buffer = device_.allocate(kDeviceTransferBytes);
        if (buffer == nullptr)
          return Status(ErrorCode::kOutOfMemory,
                        fmt::format("{}: no {} are free to measure with", device_.name(),
                                    format_size(kDeviceTransferBytes)));
        lanes.push_back(buffer);
        const Result<device::Event> end =
            device_.copy_from_host(buffer, reinterpret_cast<const std::byte*>(noise.data()),
                                   kDeviceTransferBytes, device_.record());
        if (!end.ok()) return end.status();
        TERAIO_RETURN_IF_ERROR(device_.wait(*end));
      }
    }
    return {};
  }

 private:
  device::Device& device_;
  probe::LoadMemory memory_;
};

void measure_tier(const std::string& name, storage::TierStore& store, const DeviceBuffers& buffers,
                  int64_t tier_bytes, int64_t duration_ns, Results& results) {
  probe::LoadGenerator load(store, kDeviceTransferBytes, buffers.memory());
  if (const Status filled = load.fill(tier_bytes); !filled.ok()) fail(filled);
  const auto run = [&](const Phase& phase) {
    return load.run(phase.reads, phase.writes, duration_ns);
  };
  measure_phases({name, run, [&] { return store.counters(); }}, results);
}

Results measure_device(const BenchOptions& options) {
  Results results;
  const SteadyClock clock;
  const std::unique_ptr<device::Device> device = open_device(options.device);
  const Rates bare = value_or_fail(probe::measure_link(*device, clock));
  results.measured.push_back({"bare",
                              kBoth.name,
                              {static_cast<double>(bare.read_bytes_per_second),
                               static_cast<double>(bare.write_bytes_per_second)}});
  DeviceBuffers buffers(*device);
  if (const Status allocated = buffers.allocate(); !allocated.ok()) fail(allocated);
  const int64_t least_bytes = probe::LoadGenerator::least_bytes(kDeviceTransferBytes);
  const int64_t tier_bytes = std::max(options.size_bytes, least_bytes);
  const auto host =
      value_or_fail(storage::open_host_store(tier_bytes + least_bytes, *device, clock));
  measure_tier("host", *host, buffers, tier_bytes, options.duration_ns, results);
  storage::SsdStoreOptions ssd_options;
  ssd_options.capacity_bytes = tier_bytes + least_bytes;
  ssd_options.device = device.get();
  const auto ssd = value_or_fail(open_ssd_store(directories_of(options), ssd_options, clock));
  measure_tier("ssd", *ssd, buffers, tier_bytes, options.duration_ns, results);
  results.drives = ssd->counters().drives;
  return results;
}

void print_json(const Results& results) {
  nlohmann::ordered_json json;
  for (const probe::LoadRates& rates : results.alone)
    json["alone"].push_back(
        {{"read_bytes_per_second", rates.read}, {"write_bytes_per_second", rates.write}});
  for (const Measured& each : results.measured)
    json["measured"].push_back({{"path", each.path},
                                {"phase", each.phase},
                                {"read_bytes_per_second", each.rates.read},
                                {"write_bytes_per_second", each.rates.write},
                                {"cpu_seconds_per_gb", each.cpu_seconds_per_gb}});
  for (const storage::DriveCounters& drive : results.drives)
    json["drives"].push_back({{"name", drive.name},
                              {"io_path", drive.io_path},
                              {"gpu_direct_off", drive.gpu_direct_off},
                              {"bytes_written", drive.bytes_written}});
  if (results.urgent)
    json["urgent_read"] = {{"idle_ns", results.urgent->idle_ns},
                           {"behind_writes_ns", results.urgent->busy_ns},
                           {"idle_write_ns", results.urgent->write_ns}};
  if (results.memory_bytes) json["memory_bytes"] = *results.memory_bytes;
  fmt::print("{}\n", json.dump(1));
}

std::string rate_text(double bytes_per_second) {
  return format_size(static_cast<int64_t>(bytes_per_second)) + "/s";
}

void print_table(const Results& results) {
  for (size_t i = 0; i < results.drives.size(); ++i) {
    const storage::DriveCounters& drive = results.drives[i];
    fmt::print("{}: {}", drive.name, drive.io_path);
    if (i < results.alone.size())
      fmt::print(", alone {} read and {} written", rate_text(results.alone[i].read),
                 rate_text(results.alone[i].write));
    fmt::print("\n");
  }
  Table table({"path", "phase", "read", "written", "CPU s per GB"});
  for (const Measured& each : results.measured)
    table.add({each.path, each.phase, rate_text(each.rates.read), rate_text(each.rates.write),
               each.path == "bare" ? "" : fmt::format("{:.4f}", each.cpu_seconds_per_gb)});
  fmt::print("\n{}", table.text());
  if (results.urgent)
    fmt::print("\nurgent read of a request: {} on idle drives, {} behind a full queue of writes\n",
               format_duration(results.urgent->idle_ns), format_duration(results.urgent->busy_ns));
  if (results.memory_bytes)
    fmt::print("memory of the store: {}\n", format_size(*results.memory_bytes));
}

}  // namespace

void run_bench(const BenchOptions& options) {
  const Results results =
      options.device.empty() ? measure_drives(options) : measure_device(options);
  options.json ? print_json(results) : print_table(results);
}

}  // namespace teraio::cli
