#include "storage/ssd_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "drives/drive_facts.h"
#include "drives/drive_identity.h"
#include "io/extent_file.h"
#include "io/thread_io.h"
#include "io/uring_io.h"
#include "storage/striped_store.h"

namespace teraio::storage {
namespace {

// A directory that holds a share of the store.
struct Place {
  SsdDirectory directory;
  drives::DriveIdentity identity;
  double weight = 0;
  int64_t room_bytes = 0;
};

Status check_options(const std::vector<SsdDirectory>& directories, const SsdStoreOptions& options) {
  const auto wrong = [](std::string message) {
    return Status(ErrorCode::kInvalidArgument, "ssd store: " + std::move(message));
  };
  if (directories.empty()) return wrong("expected at least one directory");
  if (options.capacity_bytes <= 0)
    return wrong(fmt::format("capacity of {} bytes: expected more than 0", options.capacity_bytes));
  if (options.reserve_free_bytes < 0) return wrong("expected a reserve of 0 bytes or more");
  if (options.request_bytes <= 0 || options.request_bytes % io::kBlockBytes != 0)
    return wrong(fmt::format("request size of {} bytes: expected a multiple of {}",
                             options.request_bytes, io::kBlockBytes));
  if (options.queue_depth < 1 || options.queue_depth > 1024)
    return wrong(fmt::format("queue depth {}: expected 1 to 1024", options.queue_depth));
  if (options.planned_write_depth < 1)
    return wrong(
        fmt::format("depth of planned writes {}: expected 1 or more", options.planned_write_depth));
  if (options.io_timeout_ns < 0)
    return wrong(fmt::format("I/O timeout of {} ns: expected 0 or more", options.io_timeout_ns));
  return Status();
}

Result<Place> inspect(const SsdDirectory& directory, const SsdStoreOptions& options) {
  TERAIO_RETURN_IF_ERROR(io::check_directory(directory.path, options.allow_ram_directory));
  io::remove_orphans(directory.path);
  const Result<int64_t> room_bytes =
      io::free_room_bytes(directory.path, options.reserve_free_bytes);
  if (!room_bytes.ok()) return room_bytes.status();
  Result<drives::DriveIdentity> identity = drives::identify_drive(directory.path);
  if (!identity.ok()) return identity.status();
  return Place{directory, std::move(*identity), 0, *room_bytes};
}

// A second directory on a drive would double the drive's share without making it faster.
Result<std::vector<Place>> distinct_drives(const std::vector<SsdDirectory>& directories,
                                           const SsdStoreOptions& options) {
  std::vector<Place> places;
  for (const SsdDirectory& directory : directories) {
    Result<Place> place = inspect(directory, options);
    if (!place.ok()) return place.status();
    const auto same = std::find_if(places.begin(), places.end(), [&](const Place& other) {
      return other.identity.is_same_drive(place->identity);
    });
    if (same == places.end())
      places.push_back(std::move(*place));
    else
      spdlog::warn(
          "ssd directories {} and {} are on one drive ({}): only the first is used. "
          "Name one directory per drive",
          same->directory.path.string(), directory.path.string(), same->identity.name);
  }
  return places;
}

// The rate, in bytes per second, at which a tensor goes out and comes back.
double round_trip_rate(const SsdDirectory& directory) {
  const auto read = static_cast<double>(directory.rates.read_bytes_per_second);
  const auto write = static_cast<double>(directory.rates.write_bytes_per_second);
  return read > 0 && write > 0 ? read * write / (read + write) : 0;
}

// A drive without measured rates gets the average weight of the others.
void set_weights(std::vector<Place>& places) {
  double sum = 0;
  int32_t known_count = 0;
  for (Place& place : places) {
    place.weight = round_trip_rate(place.directory);
    sum += place.weight;
    known_count += place.weight > 0 ? 1 : 0;
  }
  const double unknown_weight = known_count > 0 ? sum / known_count : 1.0;
  for (Place& place : places)
    if (place.weight <= 0) place.weight = unknown_weight;
}

Result<std::vector<int64_t>> shares_of_capacity(const std::vector<Place>& places,
                                                int64_t capacity_bytes) {
  std::vector<double> weights;
  std::vector<int64_t> rooms_bytes;
  int64_t sum_bytes = 0;
  for (const Place& place : places) {
    weights.push_back(place.weight);
    rooms_bytes.push_back(place.room_bytes);
    sum_bytes += place.room_bytes;
  }
  auto shares =
      divide(align_up(capacity_bytes, io::kBlockBytes), weights, rooms_bytes, io::kBlockBytes);
  if (shares) return std::move(*shares);
  return Status(ErrorCode::kOutOfSpace,
                fmt::format("ssd directory {}{}: {} wanted, {} free. Free space there, name more "
                            "drives, or ask for less",
                            places.front().directory.path.string(),
                            places.size() > 1 ? fmt::format(" and {} more", places.size() - 1) : "",
                            format_size(capacity_bytes), format_size(sum_bytes)));
}

// The number of requests that one drive may have in flight.
int32_t in_flight_max_of(const SsdStoreOptions& options) { return 2 * options.queue_depth; }

Result<std::unique_ptr<io::DriveIo>> open_io(const io::ExtentFile& file, const Place& place,
                                             const SsdStoreOptions& options) {
  const int32_t in_flight_max = in_flight_max_of(options);
  if (!file.is_direct()) {
    spdlog::warn(
        "ssd directory {}: no direct I/O on its file system: buffered I/O is used, which is slower "
        "and takes host memory. Choose a directory on ext4 or xfs",
        place.directory.path.string());
    return io::make_thread_io(file.fd(), false, in_flight_max);
  }
  if (options.backend == IoBackend::kThreads)
    return io::make_thread_io(file.fd(), true, in_flight_max);
  Result<std::unique_ptr<io::DriveIo>> uring = io::open_uring_io(file.fd(), in_flight_max);
  if (uring.ok() || options.backend == IoBackend::kUring) return uring;
  spdlog::info("ssd directory {}: {}; threads instead", place.directory.path.string(),
               uring.status().message());
  return io::make_thread_io(file.fd(), true, in_flight_max);
}

bool needs_device_path(const SsdStoreOptions& options) {
  return options.device != nullptr && !options.device->is_host_addressable();
}

int64_t drives_in_use(const std::vector<int64_t>& shares) {
  return std::count_if(shares.begin(), shares.end(),
                       [](int64_t share_bytes) { return share_bytes > 0; });
}

// Each request through host memory takes about ten calls of the system and of the device's driver.
// Where the drives are fast, they get fewer and larger ones, for which an urgent read waits no
// longer: those that take as long as 1 MiB on the drive where the limits were chosen
// (docs/decisions/005-two-planned-writes.md).
constexpr int64_t kRequestNs = 750'000;
constexpr int64_t kLargestRequestBytes = 4 * kMiB;
// Larger requests take larger rings: of a limit of host memory at most this part.
constexpr int64_t kPartsOfLimit = 8;

int64_t request_bytes_for(const std::vector<Place>& places, const std::vector<int64_t>& shares,
                          const SsdStoreOptions& options) {
  if (!needs_device_path(options)) return options.request_bytes;
  int64_t slowest = std::numeric_limits<int64_t>::max();
  for (const Place& place : places) {
    const Rates& rates = place.directory.rates;
    slowest = std::min({slowest, rates.read_bytes_per_second, rates.write_bytes_per_second});
  }
  const auto fits = [&](int64_t request_bytes) {
    return request_bytes <= kLargestRequestBytes &&
           request_bytes <= slowest / 1'000 * kRequestNs / 1'000'000 &&
           drives_in_use(shares) *
                   io::staging_ring_bytes(in_flight_max_of(options), request_bytes) <=
               options.staging_limit_bytes / kPartsOfLimit;
  };
  int64_t request_bytes = options.request_bytes;
  while (fits(2 * request_bytes)) request_bytes *= 2;
  return request_bytes;
}

Status check_staging(const std::vector<int64_t>& shares, const SsdStoreOptions& options) {
  if (!needs_device_path(options)) return Status();
  const int64_t drive_count = drives_in_use(shares);
  const int64_t needed_bytes =
      drive_count * io::staging_ring_bytes(in_flight_max_of(options), options.request_bytes);
  if (needed_bytes <= options.staging_limit_bytes) return Status();
  return Status(
      ErrorCode::kInvalidArgument,
      fmt::format("ssd store: the limit of host memory is {} bytes ({}), and the way between "
                  "{} drive{} and the device needs {} bytes ({}) of it: expected at least that",
                  options.staging_limit_bytes, format_size(options.staging_limit_bytes),
                  drive_count, drive_count == 1 ? "" : "s", needed_bytes,
                  format_size(needed_bytes)));
}

Status add_device_path(DriveSpec& spec, const Place& place, const SsdStoreOptions& options,
                       const Clock& clock) {
  io::DevicePathOptions path_options;
  path_options.drive_name = spec.name;
  path_options.clock = &clock;
  path_options.request_bytes = options.request_bytes;
  path_options.in_flight_max = in_flight_max_of(options);
  path_options.checksum = options.checksum;
  path_options.gpu_direct = options.gpu_direct;
  path_options.cufile_library = options.cufile_library;
  path_options.fd = spec.file.fd();
  path_options.file_bytes = spec.capacity_bytes;
  path_options.is_direct = spec.file.is_direct();
  if (!place.identity.folder.empty())
    path_options.drive_node = drives::read_drive_facts(place.identity.folder).numa_node;
  Result<io::DevicePath> path = open_device_path(std::move(spec.io), *options.device, path_options);
  if (!path.ok()) return path.status();
  spec.chunk_io = std::move(path->io);
  spec.gpu_direct_off = std::move(path->gpu_direct_off);
  spec.staging_bytes = path->staging_bytes;
  return Status();
}

bool is_any_direct(const std::vector<DriveSpec>& drives) {
  return std::any_of(drives.begin(), drives.end(),
                     [](const DriveSpec& drive) { return drive.gpu_direct_off.empty(); });
}

Result<DriveSpec> open_drive(const Place& place, int64_t size_bytes, const SsdStoreOptions& options,
                             const Clock& clock) {
  Result<io::ExtentFile> file = io::ExtentFile::create(
      place.directory.path, {.size_bytes = size_bytes,
                             .reserve_free_bytes = options.reserve_free_bytes,
                             .allow_ram_directory = options.allow_ram_directory,
                             .keeps_name = needs_device_path(options)});
  if (!file.ok()) return file.status();
  Result<std::unique_ptr<io::DriveIo>> io = open_io(*file, place, options);
  if (!io.ok()) return io.status().with_context("ssd directory " + place.directory.path.string());
  DriveSpec spec;
  spec.name = fmt::format("{} ({})", place.identity.name, place.directory.path.string());
  spec.capacity_bytes = size_bytes;
  spec.weight = place.weight;
  spec.rates = place.directory.rates;
  if (!place.identity.folder.empty()) {
    spec.temperature = [folder = place.identity.folder] {
      return drives::read_temperature(folder);
    };
  }
  spec.file = std::move(*file);
  spec.io = std::move(*io);
  if (needs_device_path(options))
    TERAIO_RETURN_IF_ERROR(add_device_path(spec, place, options, clock));
  TERAIO_RETURN_IF_ERROR(spec.file.remove_name());
  return spec;
}

}  // namespace

Result<std::unique_ptr<TierStore>> open_ssd_store(const std::vector<SsdDirectory>& directories,
                                                  const SsdStoreOptions& given_options,
                                                  const Clock& clock) {
  SsdStoreOptions options = given_options;
  TERAIO_RETURN_IF_ERROR(check_options(directories, options));
  Result<std::vector<Place>> places = distinct_drives(directories, options);
  if (!places.ok()) return places.status();
  set_weights(*places);
  const Result<std::vector<int64_t>> shares = shares_of_capacity(*places, options.capacity_bytes);
  if (!shares.ok()) return shares.status();
  options.request_bytes = request_bytes_for(*places, *shares, options);
  TERAIO_RETURN_IF_ERROR(check_staging(*shares, options));
  std::vector<DriveSpec> drives;
  for (size_t i = 0; i < places->size(); ++i) {
    if ((*shares)[i] == 0) continue;
    Result<DriveSpec> drive = open_drive((*places)[i], (*shares)[i], options, clock);
    if (!drive.ok()) return drive.status();
    drives.push_back(std::move(*drive));
  }
  StripedStoreOptions store_options;
  store_options.request_bytes = options.request_bytes;
  store_options.queue_depth = options.queue_depth;
  // With staging, as many writes again are being copied from the device.
  store_options.planned_write_depth = std::min(options.queue_depth, options.planned_write_depth) *
                                      (needs_device_path(options) ? 2 : 1);
  store_options.checksum = options.checksum;
  store_options.io_timeout_ns = options.io_timeout_ns;
  store_options.device = options.device;
  if (needs_device_path(options) && is_any_direct(drives))
    store_options.segments = options.device->segments();
  return StripedStore::open(std::move(drives), std::move(store_options), clock);
}

}  // namespace teraio::storage
