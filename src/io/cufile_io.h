// NVIDIA's cuFile (GPUDirect Storage) for one drive's file: bytes go between it and a device
// without host memory in between. Nothing else of cuFile is seen outside of the files cufile_*.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "io/drive_io.h"

namespace teraio::io {

// Whether the library is there and can be used without its compatibility mode; kUnsupported, with
// the reason, when not. An empty path stands for $TERAIO_LIBCUFILE, else for where the loader and
// the CUDA toolkit have it. Opens the driver and closes it again. Any thread.
Status check_cufile(const std::filesystem::path& library = {});

struct CufileIoOptions {
  std::filesystem::path library;  // as for check_cufile
  int64_t file_bytes = 0;
  int32_t window = 1;
  std::function<void()> on_result;  // called after every result, on any thread; may be empty
};

// `fd` has direct I/O, still has a name, and like `device` outlives the result. A first write and
// read prove that bytes arrive; they take memory of the device and overwrite the file's beginning.
// kUnsupported, with the reason, when there is no direct way. Its threads do blocking calls: of
// cuFile's interfaces the one that other projects have found to work.
Result<std::unique_ptr<DriveIo>> open_cufile_io(int fd, device::Device& device,
                                                const CufileIoOptions& options);

}  // namespace teraio::io
