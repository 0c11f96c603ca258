#include "io/extent_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::io {
namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::kOutOfSpace;
    case ENOTDIR:
    case EROFS:
    case EACCES:
    case EPERM:
    case ELOOP:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kIoError;
  }
}

Status directory_error(const std::filesystem::path& directory, std::string_view what, int error) {
  std::error_code unknown;
  return Status(code_of(error), fmt::format("ssd directory {}: {}: {}", directory.string(), what,
                                            errno_text(error)))
      .with_details({"error: " + errno_name(error),
                     "directory: " + std::filesystem::absolute(directory, unknown).string()});
}

std::string random_name() {
  std::random_device random;
  return fmt::format(".teraio-{}-{:08x}{:08x}", getpid(), random(), random());
}

bool is_random_name(std::string_view name) {
  constexpr std::string_view kPrefix = ".teraio-";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const size_t pid_end = std::min(name.find_first_not_of("0123456789"), name.size());
  if (pid_end == 0 || name.substr(pid_end, 1) != "-") return false;
  name.remove_prefix(pid_end + 1);
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

// O_EXCL never follows a symbolic link. cuFile would refuse a file that has O_NOFOLLOW as well.
int open_new_file(const std::filesystem::path& path, int extra_flags) {
  return open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | extra_flags, 0600);
}

// Moves the first block, again when that is interrupted. Returns 0 or an errno.
template <typename Move>
int move_first_block(Move move, int fd, void* block) {
  constexpr int kInterruptionsMax = 100;
  for (int interruptions = 0;; ++interruptions) {
    const ssize_t moved = move(fd, block, kBlockBytes, 0);
    if (moved >= 0) return moved == kBlockBytes ? 0 : EIO;
    const bool may_pass = errno == EINTR || errno == EAGAIN;
    if (!may_pass || interruptions == kInterruptionsMax) return errno;
  }
}

// Some file systems accept O_DIRECT at open and refuse the first transfer, so this makes one.
// Returns 0, or the errno of the failed call.
int try_block_io(int fd) {
  const std::unique_ptr<void, decltype(&std::free)> block(
      std::aligned_alloc(kBlockBytes, kBlockBytes), &std::free);
  std::memset(block.get(), 0, kBlockBytes);
  const int error = move_first_block(&pwrite, fd, block.get());
  return error != 0 ? error : move_first_block(&pread, fd, block.get());
}

bool means_no_direct_io(int error) { return error == EINVAL || error == EOPNOTSUPP; }

// Returns a descriptor, or -errno and leaves no file.
int open_or_leave_none(const std::filesystem::path& path, int extra_flags) {
  const int fd = open_new_file(path, extra_flags);
  if (fd >= 0) return fd;
  const int error = errno;
  // The file may exist although the system refused O_DIRECT.
  if (error != EEXIST) unlink(path.c_str());
  return -error;
}

Status preallocate(int fd, const std::filesystem::path& directory, int64_t size_bytes) {
  while (fallocate(fd, 0, 0, size_bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP)
      return directory_error(directory,
                             fmt::format("cannot preallocate {}", format_size(size_bytes)), errno);
    spdlog::warn(
        "ssd directory {}: its file system cannot preallocate: writes fail when other files fill "
        "it during the run. Keep the space free, or choose ext4 or xfs",
        directory.string());
    if (ftruncate(fd, size_bytes) == 0) return Status();
    return directory_error(directory, "cannot set the size of a file", errno);
  }
  return Status();
}

// Whether the kernel says that it transfers our blocks of this file without the page cache.
// nullopt: the kernel or the file system does not tell.
std::optional<bool> claims_direct_io(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return std::nullopt;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return std::nullopt;
  return info.stx_dio_offset_align > 0 && kBlockBytes % info.stx_dio_offset_align == 0 &&
         kBlockBytes % info.stx_dio_mem_align == 0;
#else
  (void)fd;
  return std::nullopt;
#endif
}

// Whether the file's first block, which was just written, stayed in the page cache.
bool is_first_block_cached(int fd) {
  void* block = mmap(nullptr, kBlockBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (block == MAP_FAILED) return false;
  unsigned char residency = 0;
  const bool is_known = mincore(block, kBlockBytes, &residency) == 0;
  munmap(block, kBlockBytes);
  return is_known && (residency & 1) != 0;
}

// Whether a process serves the file system (FUSE). Direct I/O then ends at this process, which may
// go through the page cache on its part.
bool is_in_user_space(int fd) {
  constexpr uint64_t kFuseMagic = 0x65735546;  // <linux/magic.h> has it since Linux 5.16
  struct statfs file_system;
  return fstatfs(fd, &file_system) == 0 && static_cast<uint64_t>(file_system.f_type) == kFuseMagic;
}

bool is_honoured(int fd) {
  if (is_in_user_space(fd)) return false;
  return claims_direct_io(fd).value_or(!is_first_block_cached(fd));
}

// Returns whether direct I/O works, and switches it off if not. Some file systems accept O_DIRECT
// and go through the page cache all the same (ext4 with data=journal), where an error of a write
// comes late.
Result<bool> settle_direct_io(int fd, const std::filesystem::path& directory) {
  const int flags = fcntl(fd, F_GETFL);
  const bool asked = (flags & O_DIRECT) != 0;
  const int error = try_block_io(fd);
  if (error != 0 && !(asked && means_no_direct_io(error)))
    return directory_error(directory, "the first write and read of a new file failed", error);
  if (!asked) return false;
  if (error == 0 && is_honoured(fd)) return true;
  if (fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0)
    return directory_error(directory, "cannot switch direct I/O off", errno);
  return false;
}

}  // namespace

Status check_directory(const std::filesystem::path& directory, bool allow_ram_directory) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0)
    return directory_error(directory, "expected an existing directory", errno);
  if (!S_ISDIR(info.st_mode)) return directory_error(directory, "expected a directory", ENOTDIR);
  struct statfs file_system;
  if (statfs(directory.c_str(), &file_system) != 0)
    return directory_error(directory, "cannot read its file system", errno);
  const auto type = static_cast<uint64_t>(file_system.f_type);
  if (!allow_ram_directory && (type == TMPFS_MAGIC || type == RAMFS_MAGIC))
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("ssd directory {} is on a RAM file system (tmpfs or ramfs): expected "
                              "a directory on a drive",
                              directory.string()));
  return Status();
}

Result<int64_t> free_room_bytes(const std::filesystem::path& directory,
                                int64_t reserve_free_bytes) {
  struct statvfs info;
  if (statvfs(directory.c_str(), &info) != 0)
    return directory_error(directory, "cannot read its free space", errno);
  if (info.f_flag & ST_RDONLY) return directory_error(directory, "cannot write", EROFS);
  const int64_t free_bytes = static_cast<int64_t>(info.f_bavail) * info.f_frsize;
  return std::max<int64_t>(0, free_bytes - reserve_free_bytes) / kBlockBytes * kBlockBytes;
}

void remove_orphans(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!is_random_name(entry.path().filename().string())) continue;
    const int fd = open(entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat info = {};
    const bool is_orphan = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
                           flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_orphan && unlink(entry.path().c_str()) == 0)
      spdlog::info("ssd directory {}: {} of a process that was killed are free again",
                   directory.string(), format_size(info.st_size));
    close(fd);
  }
}

Result<ExtentFile> ExtentFile::create(const std::filesystem::path& directory,
                                      const ExtentFileOptions& options) {
  TERAIO_RETURN_IF_ERROR(check_directory(directory, options.allow_ram_directory));
  const Result<int64_t> room_bytes = free_room_bytes(directory, options.reserve_free_bytes);
  if (!room_bytes.ok()) return room_bytes.status();
  if (*room_bytes < options.size_bytes)
    return Status(
        ErrorCode::kOutOfSpace,
        fmt::format(
            "ssd directory {}: {} wanted, {} free (with {} kept free). Free space there, or ask "
            "for less",
            directory.string(), format_size(options.size_bytes), format_size(*room_bytes),
            format_size(options.reserve_free_bytes)));
  ExtentFile file;
  const std::filesystem::path name = directory / random_name();
  file.fd_ = open_or_leave_none(name, O_DIRECT);
  if (means_no_direct_io(-file.fd_)) file.fd_ = open_or_leave_none(name, 0);
  if (file.fd_ < 0) return directory_error(directory, "cannot create a file", -file.fd_);
  file.guard_ = ForkGuard(file.fd_);
  file.owner_pid_ = getpid();
  file.name_ = name;
  if (options.keeps_name)
    (void)flock(file.fd_, LOCK_EX | LOCK_NB);  // for remove_orphans(), which needs locks as well
  else
    TERAIO_RETURN_IF_ERROR(file.remove_name());
  TERAIO_RETURN_IF_ERROR(preallocate(file.fd_, directory, options.size_bytes));
  const Result<bool> is_direct = settle_direct_io(file.fd_, directory);
  if (!is_direct.ok()) return is_direct.status();
  file.is_direct_ = *is_direct;
  return file;
}

Status ExtentFile::remove_name() {
  if (name_.empty()) return Status();
  const std::filesystem::path name = std::exchange(name_, {});
  if (unlink(name.c_str()) == 0) return Status();
  return Status(code_of(errno),
                fmt::format("{}: cannot be removed: {}", name.string(), errno_text(errno)));
}

ExtentFile::ExtentFile(ExtentFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      guard_(std::move(other.guard_)),
      owner_pid_(other.owner_pid_),
      is_direct_(other.is_direct_),
      name_(std::exchange(other.name_, {})) {}

ExtentFile& ExtentFile::operator=(ExtentFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(guard_, other.guard_);
  std::swap(owner_pid_, other.owner_pid_);
  std::swap(is_direct_, other.is_direct_);
  std::swap(name_, other.name_);
  return *this;
}

ExtentFile::~ExtentFile() {
  if (const Status removed = remove_name(); !removed.ok())
    spdlog::warn("{}. It takes room on the drive until it is removed: delete it",
                 removed.message());
  if (fd_ < 0) return;
  // The kernel lets go of a ring's file some time after the ring has ended, and a child that was
  // forked without pthread_atfork() may keep the file open for as long as it lives. The bytes
  // belong to this process alone.
  if (getpid() == owner_pid_ && ftruncate(fd_, 0) != 0)
    spdlog::warn(
        "a file of the ssd tier keeps its room on the drive while a child process has it open: {}. "
        "End the child to free it",
        errno_text(errno));
  guard_ = ForkGuard();
  close(fd_);
}

}  // namespace teraio::io
