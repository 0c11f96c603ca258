#include "probe/probe_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/json_file.h"
#include "io/fork_guard.h"
#include "probe/stop_request.h"

namespace teraio::probe {
namespace {

constexpr const char* kFormat = "teraio-probe/2";

constexpr std::pair<RatesOrigin, const char*> kOrigins[] = {
    {RatesOrigin::kShortProbe, "short probe"},
    {RatesOrigin::kThoroughProbe, "thorough probe"},
    {RatesOrigin::kRuns, "runs"}};

const char* to_text(RatesOrigin origin) { return kOrigins[static_cast<size_t>(origin)].second; }

// Entries of earlier versions do not name it: those measurements were thorough.
RatesOrigin read_origin(const JsonNode& node) {
  if (!node.exists()) return RatesOrigin::kThoroughProbe;
  const std::string text = node.text();
  for (const auto& [origin, name] : kOrigins)
    if (text == name) return origin;
  node.fail("expected short probe, thorough probe or runs");
  return RatesOrigin::kThoroughProbe;
}

int64_t read_peak(const JsonNode& node) { return node.exists() ? node.non_negative_integer() : 0; }

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
      : file_(file), fd_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)), guard_(fd_) {}
  ~ProcessLock() {
    guard_ = io::ForkGuard();
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
  io::ForkGuard guard_;  // a child that outlives this process would keep the lock
};

}  // namespace

std::optional<DriveProbe> load_cached_probe(const std::filesystem::path& cache_directory,
                                            const std::filesystem::path& directory) {
  Result<DriveProbe> described = describe_drive(directory);
  if (!described.ok()) return std::nullopt;
  DriveProbe& probe = *described;
  const JsonDocument document(cache_file(cache_directory, probe.identity), kFormat);
  const JsonNode& root = document.root();
  const std::string identity = root["identity"].text();
  probe.rates.read_bytes_per_second = root["read_bytes_per_second"].positive_integer();
  probe.rates.write_bytes_per_second = root["write_bytes_per_second"].positive_integer();
  probe.duplex = root["duplex"].number();
  probe.request_latency_ns = root["request_latency_ns"].non_negative_integer();
  probe.origin = read_origin(root.find("origin"));
  probe.peak_rates.read_bytes_per_second = read_peak(root.find("peak_read_bytes_per_second"));
  probe.peak_rates.write_bytes_per_second = read_peak(root.find("peak_write_bytes_per_second"));
  if (!document.status().ok() || identity != probe.identity) return std::nullopt;
  return probe;
}

Status save_cached_probe(const std::filesystem::path& cache_directory, const DriveProbe& probe) {
  TERAIO_RETURN_IF_ERROR(make_directory(cache_directory));
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["identity"] = probe.identity;
  json["read_bytes_per_second"] = probe.rates.read_bytes_per_second;
  json["write_bytes_per_second"] = probe.rates.write_bytes_per_second;
  json["duplex"] = probe.duplex;
  json["request_latency_ns"] = probe.request_latency_ns;
  json["origin"] = to_text(probe.origin);
  json["peak_read_bytes_per_second"] = probe.peak_rates.read_bytes_per_second;
  json["peak_write_bytes_per_second"] = probe.peak_rates.write_bytes_per_second;
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
