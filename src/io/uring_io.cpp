#include "io/uring_io.h"

#include <fmt/format.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/units.h"
#include "io/fork_guard.h"

namespace teraio::io {
namespace {

// The kernel's limit for one buffer.
constexpr int64_t kRegisteredBytesMax = kGiB;
constexpr uint64_t kWakeTag = std::numeric_limits<uint64_t>::max();

// From best to simplest, because older kernels refuse unknown flags. A ring that starts disabled
// belongs to the thread that enables it, which is the thread that uses it.
constexpr unsigned kRingFlags[] = {
    IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
    IORING_SETUP_R_DISABLED | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_R_DISABLED,
};

bool supports_read_and_write(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool supported = io_uring_opcode_supported(probe, IORING_OP_READ) &&
                         io_uring_opcode_supported(probe, IORING_OP_WRITE);
  io_uring_free_probe(probe);
  return supported;
}

class UringIo final : public DriveIo {
 public:
  UringIo() = default;
  ~UringIo() override {
    guard_ = ForkGuard();
    if (has_ring_) io_uring_queue_exit(&ring_);
    if (wake_fd_ >= 0) close(wake_fd_);
  }

  Status open(int fd, int32_t in_flight_max);

  std::string_view description() const override { return description_; }
  Status register_memory(std::byte* memory, int64_t size_bytes) override;
  void submit(const IoRequest& request) override;
  void wait(std::vector<IoResult>& results) override;
  void wake() override;
  std::string error_text(int64_t error_number) const override;

 private:
  int open_ring(int32_t in_flight_max);
  void enable();
  bool is_registered(const IoRequest& request) const;
  void arm_wake();
  // Returns true if there was a result or a wake.
  bool reap(std::vector<IoResult>& results);

  io_uring ring_{};
  ForkGuard guard_;  // of the ring's descriptor
  bool has_ring_ = false;
  bool is_enabled_ = false;
  bool is_wake_armed_ = false;
  int wake_fd_ = -1;
  uint64_t wake_count_ = 0;  // the kernel stores the eventfd's value here
  std::byte* registered_ = nullptr;
  int64_t registered_bytes_ = 0;
  std::string description_ = "io_uring direct";
};

int UringIo::open_ring(int32_t in_flight_max) {
  int error = 0;
  for (const unsigned flags : kRingFlags) {
    // One more entry, for the wake.
    error = io_uring_queue_init(static_cast<unsigned>(in_flight_max) + 1, &ring_, flags);
    if (error != -EINVAL) break;
  }
  has_ring_ = error == 0;
  return error;
}

Status UringIo::open(int fd, int32_t in_flight_max) {
  int error = open_ring(in_flight_max);
  if (error == 0) io_uring_ring_dontfork(&ring_);
  if (error == 0) guard_ = ForkGuard(ring_.ring_fd);
  if (error == 0 && !supports_read_and_write(ring_)) error = -EOPNOTSUPP;
  if (error == 0) wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (error == 0 && wake_fd_ < 0) error = -errno;
  const int files[] = {fd, wake_fd_};
  if (error == 0) error = io_uring_register_files(&ring_, files, 2);
  if (error == 0) return Status();
  return Status(ErrorCode::kUnsupported,
                fmt::format("io_uring is not available: {}{}", errno_text(-error),
                            error == -ENOMEM ? ", perhaps for the memory-lock limit" : ""));
}

std::string UringIo::error_text(int64_t error_number) const {
  const std::string text = DriveIo::error_text(error_number);
  if (error_number != ECANCELED) return text;
  return text + ", the system refused io_uring a thread: a limit of processes may be reached";
}

void UringIo::enable() {
  is_enabled_ = true;
  // liburing 2.3 declares io_uring_enable_rings() but its shared library lacks it.
  TERAIO_CHECK(io_uring_register(static_cast<unsigned>(ring_.ring_fd), IORING_REGISTER_ENABLE_RINGS,
                                 nullptr, 0) == 0);
  io_uring_register_ring_fd(&ring_);  // saves a file lookup per call; optional
}

Status UringIo::register_memory(std::byte* memory, int64_t size_bytes) {
  const iovec all = {memory, static_cast<size_t>(size_bytes)};
  const int error =
      size_bytes > kRegisteredBytesMax ? -EFBIG : io_uring_register_buffers(&ring_, &all, 1);
  if (error != 0) {
    description_ += fmt::format(" (buffers not registered: {})", strerror(-error));
    return Status(ErrorCode::kUnsupported,
                  fmt::format("{} of buffers cannot be registered with io_uring: {}",
                              format_size(size_bytes), errno_text(-error)));
  }
  registered_ = memory;
  registered_bytes_ = size_bytes;
  description_ += " with registered buffers";
  return Status();
}

bool UringIo::is_registered(const IoRequest& request) const {
  return request.memory >= registered_ &&
         request.memory + request.size_bytes <= registered_ + registered_bytes_;
}

void UringIo::submit(const IoRequest& request) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  TERAIO_CHECK(sqe != nullptr);
  const auto size_bytes = static_cast<unsigned>(request.size_bytes);
  const auto offset_bytes = static_cast<uint64_t>(request.offset_bytes);
  const bool is_read = request.direction == Direction::kRead;
  const bool is_fixed = is_registered(request);
  if (is_read && is_fixed)
    io_uring_prep_read_fixed(sqe, 0, request.memory, size_bytes, offset_bytes, 0);
  else if (is_read)
    io_uring_prep_read(sqe, 0, request.memory, size_bytes, offset_bytes);
  else if (is_fixed)
    io_uring_prep_write_fixed(sqe, 0, request.memory, size_bytes, offset_bytes, 0);
  else
    io_uring_prep_write(sqe, 0, request.memory, size_bytes, offset_bytes);
  io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(sqe, request.tag);
}

void UringIo::arm_wake() {
  if (is_wake_armed_) return;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  TERAIO_CHECK(sqe != nullptr);
  io_uring_prep_read(sqe, 1, &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(sqe, kWakeTag);
  is_wake_armed_ = true;
}

bool UringIo::reap(std::vector<IoResult>& results) {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    const uint64_t tag = io_uring_cqe_get_data64(cqe);
    if (tag == kWakeTag)
      is_wake_armed_ = false;
    else
      results.push_back({tag, cqe->res});
    ++count;
  }
  io_uring_cq_advance(&ring_, count);
  return count > 0;
}

void UringIo::wait(std::vector<IoResult>& results) {
  if (!is_enabled_) enable();
  arm_wake();
  do {
    // After EINTR or EBUSY too, the next call submits what is left.
    io_uring_submit_and_wait(&ring_, 1);
  } while (!reap(results));
}

void UringIo::wake() {
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<std::unique_ptr<DriveIo>> open_uring_io(int fd, int32_t in_flight_max) {
  auto io = std::make_unique<UringIo>();
  TERAIO_RETURN_IF_ERROR(io->open(fd, in_flight_max));
  return std::unique_ptr<DriveIo>(std::move(io));
}

}  // namespace teraio::io
