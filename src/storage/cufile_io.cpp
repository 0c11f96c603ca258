#include "storage/cufile_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/units.h"
#include "storage/cufile_library.h"
#include "storage/thread_io.h"

namespace teraio {
namespace {

constexpr int64_t kTrialBytes = kMiB;

int64_t transfer(CufileHandle& file, Device& device, const IoRequest& request) {
  device.bind_thread();
  // cuFile is ordered with no stream of the device.
  if (!device.wait(request.after).ok()) return -EIO;
  return request.direction == Direction::kRead
             ? file.read(request.memory, request.size_bytes, request.offset_bytes)
             : file.write(request.memory, request.size_bytes, request.offset_bytes);
}

Status failed(const std::string& what) {
  return Status(ErrorCode::kUnsupported, "GPUDirect Storage: " + what);
}

Status copy_to_device(Device& device, std::byte* memory, const std::vector<std::byte>& bytes) {
  const Result<Event> end = device.copy_from_host(
      memory, bytes.data(), static_cast<int64_t>(bytes.size()), device.record());
  return end.ok() ? device.wait(*end) : end.status();
}

Status copy_from_device(Device& device, std::vector<std::byte>& bytes, const std::byte* memory) {
  const Result<Event> end = device.copy_to_host(
      bytes.data(), memory, static_cast<int64_t>(bytes.size()), device.record());
  return end.ok() ? device.wait(*end) : end.status();
}

// Writes bytes of the device, clears them, and reads them back.
Status try_round_trip(CufileHandle& file, Device& device, std::byte* memory, int64_t size_bytes) {
  std::vector<std::byte> noise(static_cast<size_t>(size_bytes));
  std::mt19937 random(std::random_device{}());
  std::generate(noise.begin(), noise.end(), [&] { return static_cast<std::byte>(random()); });
  const std::vector<std::byte> zeros(noise.size());
  std::vector<std::byte> found(noise.size());
  TERAIO_RETURN_IF_ERROR(copy_to_device(device, memory, noise));
  if (const int64_t moved = file.write(memory, size_bytes, 0); moved != size_bytes) {
    return failed(fmt::format("the first write of {} bytes gave {}", size_bytes, moved));
  }
  TERAIO_RETURN_IF_ERROR(copy_to_device(device, memory, zeros));
  if (const int64_t moved = file.read(memory, size_bytes, 0); moved != size_bytes) {
    return failed(fmt::format("the first read of {} bytes gave {}", size_bytes, moved));
  }
  TERAIO_RETURN_IF_ERROR(copy_from_device(device, found, memory));
  return found == noise ? Status() : failed("the first bytes came back different");
}

Status try_out(CufileHandle& file, Device& device, int64_t file_bytes) {
  const int64_t size_bytes = std::min(kTrialBytes, file_bytes);
  std::byte* memory = device.allocate(size_bytes);
  if (memory == nullptr) return failed("no memory of the device is left for a trial");
  Status status = try_round_trip(file, device, memory, size_bytes);
  device.release(memory);
  return status;
}

}  // namespace

Result<std::unique_ptr<DriveIo>> open_cufile_io(int fd, Device& device,
                                                const CufileIoOptions& options) {
  auto library = CufileLibrary::open(options.library);
  if (!library) return library.status();
  auto registered = (*library)->register_file(fd);
  if (!registered) return registered.status();
  const std::shared_ptr<CufileHandle> file = std::move(*registered);
  TERAIO_RETURN_IF_ERROR(try_out(*file, device, options.file_bytes));
  ThreadIoOptions threads;
  threads.description = "GPUDirect Storage";
  threads.window = options.window;
  threads.transfer = [file, &device](const IoRequest& request) {
    return transfer(*file, device, request);
  };
  threads.on_result = options.on_result;
  return make_thread_io(std::move(threads));
}

}  // namespace teraio
