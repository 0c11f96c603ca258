#include "probe/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/json_file.h"
#include "base/units.h"
#include "drives/drive_identity.h"
#include "io/extent_file.h"
#include "probe/drive_load_generator.h"
#include "storage/ssd_store.h"

namespace teraio::probe {
namespace {

constexpr const char* kFormat = "teraio-probe/2";
// r/R + w/W of the run in both directions, limited to the possible range: 1 (shared) to 2
// (independent).
double fit_duplex(double read, double write, const LoadRates& both) {
  return std::clamp(both.read / read + both.write / write, 1.0, 2.0);
}

std::string rate(double bytes_per_second) {
  return format_size(static_cast<int64_t>(bytes_per_second)) + "/s";
}

std::string both_rates(const LoadRates& rates) {
  if (rates.write <= 0) return "read " + rate(rates.read);
  if (rates.read <= 0) return "write " + rate(rates.write);
  return fmt::format("both at once: read {}, write {}", rate(rates.read), rate(rates.write));
}

std::string describe(const SustainedRate& measured) {
  const LoadProgress& all = measured.progress();
  std::string text = fmt::format("{} ({} {}; at first {}", both_rates(measured.rates()),
                                 measured.has_settled() ? "steady after" : "not steady after",
                                 format_duration(all.time_ns), both_rates(measured.first_rates()));
  if (all.bytes_written > 0) text += fmt::format("; {} written", format_size(all.bytes_written));
  return text + ")";
}

// Measures the drive. Writes come first, because the preparation has just filled the caches with
// writes.
Status measure(DriveLoadGenerator& load, const SustainedRateOptions& options,
               const std::function<void(const std::string&)>& say, DriveProbe& probe) {
  const auto run = [&](bool reads, bool writes) -> Result<LoadRates> {
    const Result<SustainedRate> measured = load.run_until_settled(reads, writes, options);
    if (!measured.ok()) return measured.status();
    say(describe(*measured));
    return measured->rates();
  };
  const Result<LoadRates> writes = run(false, true);
  if (!writes.ok()) return writes.status();
  const Result<LoadRates> both = run(true, true);
  if (!both.ok()) return both.status();
  const Result<LoadRates> reads = run(true, false);
  if (!reads.ok()) return reads.status();
  const Result<int64_t> latency_ns = load.read_latency_ns();
  if (!latency_ns.ok()) return latency_ns.status();
  say("request latency " + format_duration(*latency_ns));
  probe.read_bytes_per_second = static_cast<int64_t>(reads->read);
  probe.write_bytes_per_second = static_cast<int64_t>(writes->write);
  probe.duplex = fit_duplex(reads->read, writes->write, *both);
  probe.request_latency_ns = *latency_ns;
  probe.written_bytes = load.counters().bytes_written;
  return Status();
}

// The properties that the results depend on. A change of the store's request size or depth
// invalidates the cache.
std::string cache_key(const drives::DriveIdentity& drive) {
  const storage::SsdStoreOptions options;
  return fmt::format("{} | {} | {} | {} | device {} | request {} depth {} of writes {}", drive.name,
                     drive.model, drive.serial, drive.firmware, drive.file_system_device,
                     options.request_bytes, options.queue_depth, options.planned_write_depth);
}

// Returns what is known without a measurement.
Result<DriveProbe> describe_drive(const std::filesystem::path& directory) {
  const Result<drives::DriveIdentity> drive = drives::identify_drive(directory);
  if (!drive.ok()) return drive.status();
  const Result<int64_t> room_bytes = io::free_room_bytes(directory, 0);
  if (!room_bytes.ok()) return room_bytes.status();
  DriveProbe probe;
  probe.directory = directory;
  probe.identity = cache_key(*drive);
  probe.name = drive->name;
  probe.capacity_bytes = *room_bytes;
  return probe;
}

std::filesystem::path cache_file(const std::filesystem::path& cache_directory,
                                 const std::string& identity) {
  return cache_directory /
         fmt::format("probe-{:016x}.json", XXH3_64bits(identity.data(), identity.size()));
}

Status make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) return {};
  return Status(ErrorCode::kIoError,
                fmt::format("cannot create {}: {}", directory.string(), error.message()));
}

// A lock on a file that one process at a time can hold. The system releases it when the process
// ends.
class ProcessLock {
 public:
  explicit ProcessLock(const std::filesystem::path& file)
      : file_(file), fd_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {}
  ~ProcessLock() {
    if (fd_ >= 0) close(fd_);
  }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  // Waits until this process holds the lock, and calls `on_wait` first when another one holds it.
  // Fails with kInterrupted when `stop` comes meanwhile.
  Status take(StopRequest stop, const std::function<void()>& on_wait) {
    bool is_waiting = false;
    while (fd_ < 0 || flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (fd_ < 0 || (errno != EWOULDBLOCK && errno != EINTR))
        return Status(ErrorCode::kIoError,
                      fmt::format("cannot lock {}: {}", file_.string(), strerror(errno)));
      if (!std::exchange(is_waiting, true)) on_wait();
      if (stop.has_come())
        return Status(ErrorCode::kInterrupted,
                      fmt::format("the wait for another process, which measures drives and has "
                                  "locked {}, was interrupted",
                                  file_.string()));
      std::this_thread::sleep_for(std::chrono::nanoseconds(StopRequest::kIntervalNs));
    }
    return {};
  }

 private:
  const std::filesystem::path file_;
  const int fd_;
};

}  // namespace

Result<DriveProbe> probe_directory(const std::filesystem::path& directory,
                                   const ProbeOptions& options) {
  TERAIO_RETURN_IF_ERROR(io::check_directory(directory, false));
  Result<DriveProbe> probe = describe_drive(directory);
  if (!probe.ok()) return probe;
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(fmt::format("{}: {}", probe->name, line));
  };
  const int64_t file_bytes = std::min(options.file_bytes, probe->capacity_bytes / 2);
  say(fmt::format("writing {} to measure with", format_size(file_bytes)));
  const auto load =
      DriveLoadGenerator::open({{directory, 0, 0}}, file_bytes, storage::SsdStoreOptions(),
                               StopRequest(options.is_interrupted));
  if (!load.ok()) return load.status();
  TERAIO_RETURN_IF_ERROR(measure(**load, options.sustained, say, *probe));
  say(format_size(probe->written_bytes) + " were written to measure");
  return probe;
}

std::optional<DriveProbe> load_cached_probe(const std::filesystem::path& cache_directory,
                                            const std::filesystem::path& directory) {
  Result<DriveProbe> described = describe_drive(directory);
  if (!described.ok()) return std::nullopt;
  DriveProbe& probe = *described;
  const JsonDocument document(cache_file(cache_directory, probe.identity), kFormat);
  const JsonNode& root = document.root();
  const std::string identity = root["identity"].text();
  probe.read_bytes_per_second = root["read_bytes_per_second"].positive_integer();
  probe.write_bytes_per_second = root["write_bytes_per_second"].positive_integer();
  probe.duplex = root["duplex"].number();
  probe.request_latency_ns = root["request_latency_ns"].non_negative_integer();
  if (!document.status().ok() || identity != probe.identity) return std::nullopt;
  return probe;
}

Status save_cached_probe(const std::filesystem::path& cache_directory, const DriveProbe& probe) {
  TERAIO_RETURN_IF_ERROR(make_directory(cache_directory));
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["identity"] = probe.identity;
  json["read_bytes_per_second"] = probe.read_bytes_per_second;
  json["write_bytes_per_second"] = probe.write_bytes_per_second;
  json["duplex"] = probe.duplex;
  json["request_latency_ns"] = probe.request_latency_ns;
  return write_text_file(cache_file(cache_directory, probe.identity), to_json_text(json));
}

Result<DriveProbe> cached_or_measured(const std::filesystem::path& cache_directory,
                                      const std::filesystem::path& directory,
                                      const ProbeOptions& options) {
  if (auto cached = load_cached_probe(cache_directory, directory)) return *cached;
  TERAIO_RETURN_IF_ERROR(make_directory(cache_directory));
  const std::filesystem::path file = cache_directory / "probe.lock";
  const auto tell = [&] {
    if (options.progress)
      options.progress(
          fmt::format("another process measures drives: waiting for {}", file.string()));
  };
  ProcessLock lock(file);
  TERAIO_RETURN_IF_ERROR(lock.take(StopRequest(options.is_interrupted), tell));
  if (auto cached = load_cached_probe(cache_directory, directory)) return *cached;
  Result<DriveProbe> probe = probe_directory(directory, options);
  if (!probe.ok()) return probe;
  TERAIO_RETURN_IF_ERROR(save_cached_probe(cache_directory, *probe));
  return probe;
}

}  // namespace teraio::probe
