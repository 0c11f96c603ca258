// DevicePath: how bytes get between one drive and the memory that transfers name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"
#include "io/chunk_io.h"
#include "io/drive_io.h"

namespace teraio::io {

enum class GpuDirect : uint8_t {
  kAuto,  // where it works strictly; else staged, and the reason is logged and counted
  kOff,
  kRequired,  // or a failure
};

struct DevicePathOptions {
  std::string drive_name;
  int64_t request_bytes = 0;
  int32_t window = 0;
  bool checksum = false;  // needs the bytes in host memory
  GpuDirect gpu_direct = GpuDirect::kAuto;
  std::filesystem::path cufile_library;
  // The drive's file, which outlives the result.
  int fd = -1;
  int64_t file_bytes = 0;
  bool is_direct = false;
  int32_t drive_node = -1;  // the drive's NUMA node; -1: not known
};

struct DevicePath {
  std::unique_ptr<ChunkIo> io;
  std::string gpu_direct_off;  // why; empty: it is on
  int64_t staging_bytes = 0;   // of host memory
};

// The host memory of one drive's staging ring: a slot for every request in flight.
int64_t staging_ring_bytes(int32_t window, int64_t request_bytes);

// `device` cannot be addressed by the CPU and outlives the result. `drive` was made for `window`.
Result<DevicePath> open_device_path(std::unique_ptr<DriveIo> drive, device::Device& device,
                                    const DevicePathOptions& options);

}  // namespace teraio::io
