#include "io/cufile_io.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "device/memory_segments.h"
#include "io/cufile_library.h"
#include "io/thread_io.h"

namespace teraio::io {
namespace {

constexpr int64_t kTrialBytes = kMiB;

// The direct path between one file and a device's memory. Registers a segment with cuFile when the
// first transfer uses it. Any thread.
class DirectWay final : public device::SegmentRegistrar {
 public:
  DirectWay(std::shared_ptr<CufileLibrary> library, std::unique_ptr<CufileHandle> file,
            device::Device& device)
      : library_(std::move(library)),
        file_(std::move(file)),
        device_(device),
        segments_(device.segments()) {}
  ~DirectWay() override {
    if (segments_ == nullptr) return;
    device_.call_on_device([this] { segments_->leave(*this); });
  }
  DirectWay(const DirectWay&) = delete;
  DirectWay& operator=(const DirectWay&) = delete;

  // Returns what CufileHandle's calls return. Fails if the device does.
  Result<int64_t> move(const IoRequest& request);

  Status register_segment(const device::MemorySegment& segment) override;
  void deregister_segment(const device::MemorySegment& segment) override {
    library_->deregister_memory(segment.begin);
  }

 private:
  Result<int64_t> move_parts(const IoRequest& request);
  Result<int64_t> move_part(const IoRequest& part);

  const std::shared_ptr<CufileLibrary> library_;
  const std::unique_ptr<CufileHandle> file_;
  device::Device& device_;
  device::MemorySegments* const segments_;  // nullptr if unknown; then nothing is registered
  std::atomic<bool> has_told_ = false;
};

Result<int64_t> DirectWay::move(const IoRequest& request) {
  Result<int64_t> moved_bytes = 0;
  device_.call_on_device([&] { moved_bytes = move_parts(request); });
  return moved_bytes;
}

Result<int64_t> DirectWay::move_parts(const IoRequest& request) {
  // cuFile does not follow the order of the device's streams.
  TERAIO_RETURN_IF_ERROR(device_.wait(request.after));
  int64_t moved_bytes = 0;
  while (moved_bytes < request.size_bytes) {
    IoRequest part = request;
    part.memory += moved_bytes;
    part.offset_bytes += moved_bytes;
    part.size_bytes -= moved_bytes;
    if (segments_ != nullptr)
      part.size_bytes = segments_->bytes_in_one_segment(part.memory, part.size_bytes);
    const Result<int64_t> result = move_part(part);
    if (!result.ok() || *result < 0) return result;
    moved_bytes += *result;
    if (*result < part.size_bytes) break;
  }
  return moved_bytes;
}

// The memory lies in one segment, or in none.
Result<int64_t> DirectWay::move_part(const IoRequest& part) {
  const device::MemorySegments::Use use = segments_ == nullptr
                                              ? device::MemorySegments::Use()
                                              : segments_->use(*this, part.memory, part.size_bytes);
  CufilePlace place{part.memory, 0};
  if (use.begin() != nullptr) place = {use.begin(), part.memory - use.begin()};
  return part.direction == Direction::kRead
             ? file_->read(place, part.size_bytes, part.offset_bytes)
             : file_->write(place, part.size_bytes, part.offset_bytes);
}

Status DirectWay::register_segment(const device::MemorySegment& segment) {
  Status status = library_->register_memory(segment.begin, segment.size_bytes);
  if (!status.ok() && !has_told_.exchange(true))
    spdlog::warn(
        "{}: transfers of these {}, and of more of the same, take a copy within the device, which "
        "is slower. Training needs nothing else{}",
        status.message(), format_size(segment.size_bytes), detail_lines(status));
  return status;
}

Status failed(const std::string& what) {
  return Status(ErrorCode::kUnsupported, "GPUDirect Storage: " + what);
}

Status copy_to_device(device::Device& device, std::byte* memory,
                      const std::vector<std::byte>& bytes) {
  const Result<device::Event> end = device.copy_from_host(
      memory, bytes.data(), static_cast<int64_t>(bytes.size()), device.record());
  return end.ok() ? device.wait(*end) : end.status();
}

Status copy_from_device(device::Device& device, std::vector<std::byte>& bytes,
                        const std::byte* memory) {
  const Result<device::Event> end = device.copy_to_host(
      bytes.data(), memory, static_cast<int64_t>(bytes.size()), device.record());
  return end.ok() ? device.wait(*end) : end.status();
}

Status try_move(DirectWay& way, const IoRequest& request, const char* what) {
  const Result<int64_t> moved = way.move(request);
  if (!moved.ok()) return moved.status();
  if (*moved == request.size_bytes) return {};
  return failed(fmt::format("the first {} of {} bytes gave {}", what, request.size_bytes, *moved));
}

// Writes random bytes from device memory, clears that memory, and reads the bytes back.
Status try_round_trip(DirectWay& way, device::Device& device, std::byte* memory,
                      int64_t size_bytes) {
  std::vector<std::byte> noise(static_cast<size_t>(size_bytes));
  std::mt19937 random(std::random_device{}());
  std::generate(noise.begin(), noise.end(), [&] { return static_cast<std::byte>(random()); });
  const std::vector<std::byte> zeros(noise.size());
  std::vector<std::byte> found(noise.size());
  IoRequest request;
  request.memory = memory;
  request.size_bytes = size_bytes;
  TERAIO_RETURN_IF_ERROR(copy_to_device(device, memory, noise));
  request.direction = Direction::kWrite;
  TERAIO_RETURN_IF_ERROR(try_move(way, request, "write"));
  TERAIO_RETURN_IF_ERROR(copy_to_device(device, memory, zeros));
  request.direction = Direction::kRead;
  TERAIO_RETURN_IF_ERROR(try_move(way, request, "read"));
  TERAIO_RETURN_IF_ERROR(copy_from_device(device, found, memory));
  return found == noise ? Status() : failed("the first bytes came back different");
}

Status try_out(DirectWay& way, device::Device& device, int64_t file_bytes) {
  const int64_t size_bytes = std::min(kTrialBytes, file_bytes);
  std::byte* memory = device.allocate(size_bytes);
  if (memory == nullptr) return failed("no memory of the device is left for a trial");
  Status status = try_round_trip(way, device, memory, size_bytes);
  device.release(memory);
  return status;
}

}  // namespace

Status check_cufile(const std::filesystem::path& library) {
  return CufileLibrary::open(library).status();
}

Result<std::unique_ptr<DriveIo>> open_cufile_io(int fd, device::Device& device,
                                                const CufileIoOptions& options) {
  auto library = CufileLibrary::open(options.library);
  if (!library.ok()) return library.status();
  auto registered = (*library)->register_file(fd);
  if (!registered.ok()) return registered.status();
  const auto way = std::make_shared<DirectWay>(*library, std::move(*registered), device);
  TERAIO_RETURN_IF_ERROR(try_out(*way, device, options.file_bytes));
  ThreadIoOptions threads;
  threads.description = "GPUDirect Storage";
  threads.in_flight_max = options.in_flight_max;
  threads.transfer = [way](const IoRequest& request) { return way->move(request); };
  threads.error_text = cufile_error_text;
  threads.on_result = options.on_result;
  return make_thread_io(std::move(threads));
}

}  // namespace teraio::io
