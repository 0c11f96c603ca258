// A DriveIo over NVIDIA's cuFile (GPUDirect Storage): moves bytes between one drive's file and a
// device without host memory. Only the files cufile_* know cuFile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "io/drive_io.h"

namespace teraio::io {

// Checks that the library is present and usable without its compatibility mode. Returns
// kUnsupported, with the reason, if not. An empty path selects $TERAIO_LIBCUFILE, or else the
// places where the loader and the CUDA toolkit keep it. Opens and closes the driver. Any thread.
Status check_cufile(const std::filesystem::path& library = {});

struct CufileIoOptions {
  std::filesystem::path library;  // as for check_cufile()
  int64_t file_bytes = 0;
  int32_t in_flight_max = 1;
  std::function<void()> on_result;  // called after every result, on any thread; may be empty
};

// `fd` is open for direct I/O and still has a name. `fd` and `device` must outlive the result.
// Verifies the path with one write and one read, which overwrite the start of the file and take up
// to 1 MiB of device memory meanwhile. Returns kUnsupported, with the reason, if there is no direct
// path; other failures are those of copies on the device. The result makes blocking cuFile calls on
// one thread per request in flight. Of cuFile's interfaces, other projects found this one to work.
Result<std::unique_ptr<DriveIo>> open_cufile_io(int fd, device::Device& device,
                                                const CufileIoOptions& options);

}  // namespace teraio::io
