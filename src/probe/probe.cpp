#include "probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/units.h"
#include "drives/drive_identity.h"
#include "io/extent_file.h"
#include "probe/drive_load_generator.h"
#include "storage/ssd_store.h"

namespace teraio::probe {
namespace {

constexpr int kPhases = 4;  // the file, writes, both directions, reads
// What may be under way when a phase has reached its limit.
constexpr int64_t kUnderWayBytes = kLoadTransfersAtOnce * 16 * kMiB;

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

// One measurement of a drive.
class Measurement {
 public:
  Measurement(const ProbeOptions& options, DriveProbe& probe) : options_(options), probe_(probe) {}

  Status run() {
    announce();
    TERAIO_RETURN_IF_ERROR(write_file());
    TERAIO_RETURN_IF_ERROR(measure());
    say(fmt::format("{} were written to measure", format_size(probe_.written_bytes)));
    return Status();
  }

 private:
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(fmt::format("{}: {}", probe_.name, line));
  }

  int64_t file_bytes() const { return std::min(options_.file_bytes, probe_.capacity_bytes / 2); }

  // A fast drive takes a sixth of the time that the phases may take.
  void announce() const {
    const double longest_s =
        (kPhases - 1) * static_cast<double>(options_.sustained.longest_ns) * 1e-9;
    const int64_t measured_bytes = 2 * options_.sustained.most_written_bytes;
    const int64_t most_bytes =
        std::min(options_.most_written_bytes, file_bytes() + measured_bytes + 2 * kUnderWayBytes);
    say(fmt::format("measuring the drive of {}: writes at most {}, takes about {:.0f} to {:.0f} s",
                    probe_.directory.string(), format_size(most_bytes), longest_s / 6, longest_s));
  }

  Status write_file() {
    const int64_t bytes = file_bytes();
    auto load =
        DriveLoadGenerator::open({{probe_.directory, 0, 0}}, bytes, storage::SsdStoreOptions(),
                                 StopRequest(options_.is_interrupted), [&](int64_t written_bytes) {
                                   show(static_cast<double>(written_bytes) /
                                        static_cast<double>(std::max<int64_t>(bytes, 1)));
                                 });
    if (!load.ok()) return load.status();
    load_ = std::move(*load);
    end_phase();
    return Status();
  }

  // Writes come first, because the preparation has just filled the caches with writes.
  Status measure() {
    const Result<SustainedRate> writes = run_phase(false, true, 2);
    if (!writes.ok()) return writes.status();
    const Result<SustainedRate> both = run_phase(true, true, 1);
    if (!both.ok()) return both.status();
    const Result<SustainedRate> reads = run_phase(true, false, 1);
    if (!reads.ok()) return reads.status();
    const Result<int64_t> latency_ns = load_->read_latency_ns();
    if (!latency_ns.ok()) return latency_ns.status();
    say("request latency " + format_duration(*latency_ns));
    set_rates(*reads, *writes, *both);
    probe_.request_latency_ns = *latency_ns;
    probe_.written_bytes = load_->counters().bytes_written;
    return Status();
  }

  // `phases_left` share the bytes that may still be written.
  Result<SustainedRate> run_phase(bool reads, bool writes, int phases_left) {
    SustainedRateOptions limits = options_.sustained;
    const int64_t left_bytes = options_.most_written_bytes - load_->counters().bytes_written -
                               phases_left * kUnderWayBytes;
    if (writes)
      limits.most_written_bytes =
          std::clamp<int64_t>(left_bytes / phases_left, 1, limits.most_written_bytes);
    Result<SustainedRate> measured =
        load_->run_until_settled(reads, writes, limits, [&](const LoadProgress& progress) {
          const double of_time =
              static_cast<double>(progress.time_ns) / static_cast<double>(limits.longest_ns);
          const double of_bytes = static_cast<double>(progress.bytes_written) /
                                  static_cast<double>(limits.most_written_bytes);
          show(std::max(of_time, of_bytes));
        });
    if (!measured.ok()) return measured;
    end_phase();
    say(describe(*measured));
    return measured;
  }

  void end_phase() {
    ++phases_done_;
    show(0);
  }

  void show(double share_of_phase) const {
    if (options_.on_share)
      options_.on_share((phases_done_ + std::min(share_of_phase, 1.0)) / kPhases);
  }

  void set_rates(const SustainedRate& reads, const SustainedRate& writes,
                 const SustainedRate& both) {
    const double read = reads.rates().read;
    const double write = writes.rates().write;
    const auto reliable = [&](double bytes_per_second) {
      return static_cast<int64_t>(bytes_per_second * options_.reliable_share);
    };
    probe_.rates.read_bytes_per_second = reliable(read);
    probe_.rates.write_bytes_per_second = reliable(write);
    probe_.duplex = fit_duplex(read, write, both.rates());
    probe_.origin = options_.origin;
    probe_.peak_rates.read_bytes_per_second =
        static_cast<int64_t>(std::max(read, reads.first_rates().read));
    probe_.peak_rates.write_bytes_per_second =
        static_cast<int64_t>(std::max(write, writes.first_rates().write));
  }

  const ProbeOptions& options_;
  DriveProbe& probe_;
  std::unique_ptr<DriveLoadGenerator> load_;
  int phases_done_ = 0;
};

// The properties that the results depend on. A change of the store's request size or depth
// invalidates the cache.
std::string cache_key(const drives::DriveIdentity& drive) {
  const storage::SsdStoreOptions options;
  return fmt::format("{} | {} | {} | {} | device {} | request {} depth {} of writes {}", drive.name,
                     drive.model, drive.serial, drive.firmware, drive.file_system_device,
                     options.request_bytes, options.queue_depth, options.planned_write_depth);
}

}  // namespace

ProbeOptions thorough_probe() {
  ProbeOptions options;
  options.origin = RatesOrigin::kThoroughProbe;
  options.sustained = SustainedRateOptions();
  options.file_bytes = int64_t{4} << 30;
  options.most_written_bytes = options.file_bytes + 2 * options.sustained.most_written_bytes;
  options.reliable_share = 1;
  return options;
}

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

Result<DriveProbe> probe_directory(const std::filesystem::path& directory,
                                   const ProbeOptions& options) {
  TERAIO_RETURN_IF_ERROR(io::check_directory(directory, false));
  Result<DriveProbe> probe = describe_drive(directory);
  if (!probe.ok()) return probe;
  TERAIO_RETURN_IF_ERROR(Measurement(options, *probe).run());
  return probe;
}

}  // namespace teraio::probe
