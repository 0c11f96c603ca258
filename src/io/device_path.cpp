#include "io/device_path.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "io/cufile_io.h"
#include "io/gpu_direct_io.h"
#include "io/retrying_io.h"
#include "io/staged_io.h"

namespace teraio::io {
namespace {

Status switched_off(std::string_view why) {
  return Status(ErrorCode::kUnsupported, "GPUDirect Storage: " + std::string(why));
}

Result<std::unique_ptr<ChunkIo>> open_direct(device::Device& device,
                                             const DevicePathOptions& options, ChunkIo& staged) {
  if (options.gpu_direct == GpuDirect::kOff) return switched_off("switched off");
  if (options.checksum) return switched_off("checksums need the bytes in host memory");
  if (!options.is_direct) return switched_off("no direct I/O on the file system");
  auto io = open_cufile_io(options.fd, device,
                           {.library = options.cufile_library,
                            .file_bytes = options.file_bytes,
                            .in_flight_max = options.in_flight_max,
                            .on_result = [&staged] { staged.wake(); }});
  if (!io.ok()) return io.status();
  return std::unique_ptr<ChunkIo>(std::make_unique<RetryingIo>(
      std::move(*io), options.drive_name, options.in_flight_max, *options.clock));
}

}  // namespace

int64_t staging_ring_bytes(int32_t in_flight_max, int64_t request_bytes) {
  return in_flight_max * request_bytes;
}

Result<DevicePath> open_device_path(std::unique_ptr<DriveIo> drive, device::Device& device,
                                    const DevicePathOptions& options) {
  Result<device::HostMemory> ring = device::HostMemory::map(
      staging_ring_bytes(options.in_flight_max, options.request_bytes), device, options.drive_node);
  if (!ring.ok()) return ring.status().with_context("drive " + options.drive_name);
  DevicePath path;
  path.staging_bytes = ring->size_bytes();
  const Status registered = drive->register_memory(ring->at(0), ring->size_bytes());
  if (!registered.ok())
    spdlog::info("drive {}: {}; I/O looks its pages up instead", options.drive_name,
                 registered.message());
  auto exact = std::make_unique<RetryingIo>(std::move(drive), options.drive_name,
                                            options.in_flight_max, *options.clock);
  auto staged = StagedIo::create(
      std::move(exact), std::move(*ring), device,
      StagedIoOptions{.drive_name = options.drive_name, .slot_bytes = options.request_bytes});
  if (!staged.ok()) return staged.status().with_context("drive " + options.drive_name);
  path.io = std::move(*staged);
  auto direct = open_direct(device, options, *path.io);
  if (direct.ok()) {
    path.io = std::make_unique<GpuDirectIo>(std::move(*direct), std::move(path.io));
    return path;
  }
  if (options.gpu_direct == GpuDirect::kRequired)
    return direct.status().with_context("drive " + options.drive_name);
  path.gpu_direct_off = direct.status().message();
  spdlog::info("drive {}: {}; through host memory instead", options.drive_name,
               path.gpu_direct_off);
  return path;
}

}  // namespace teraio::io
