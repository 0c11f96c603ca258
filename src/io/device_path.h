// DevicePath: moves bytes between one drive and a device that the CPU cannot address.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "io/chunk_io.h"
#include "io/drive_io.h"

namespace teraio::io {

enum class GpuDirect : uint8_t {
  kAuto,  // if it works strictly; otherwise staging, with the reason logged and counted
  kOff,
  kRequired,  // fails if it does not work
};

struct DevicePathOptions {
  std::string drive_name;
  int64_t request_bytes = 0;
  int32_t in_flight_max = 0;
  bool checksum = false;  // excludes GPUDirect Storage: checksums need the bytes in host memory
  GpuDirect gpu_direct = GpuDirect::kAuto;
  std::filesystem::path cufile_library;
  // The drive's file. It must outlive the result.
  int fd = -1;
  int64_t file_bytes = 0;
  bool is_direct = false;
  const Clock* clock = nullptr;  // required; must outlive the result
  int32_t drive_node = -1;       // the drive's NUMA node; -1 if unknown
};

struct DevicePath {
  std::unique_ptr<ChunkIo> io;
  std::string gpu_direct_off;  // the reason; empty if GPUDirect Storage is on
  int64_t staging_bytes = 0;   // host memory that `io` holds
};

// The size of one drive's staging ring, which has one slot per request in flight.
int64_t staging_ring_bytes(int32_t in_flight_max, int64_t request_bytes);

// `device` must outlive the result, and the CPU cannot address it. `drive` must have been created
// for `in_flight_max` requests in flight. Fails if the staging ring cannot be mapped, or if
// GPUDirect Storage is required and does not work; the message names the drive.
Result<DevicePath> open_device_path(std::unique_ptr<DriveIo> drive, device::Device& device,
                                    const DevicePathOptions& options);

}  // namespace teraio::io
