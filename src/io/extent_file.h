// ExtentFile: the preallocated, unlinked file that holds a drive's extents.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "io/fork_guard.h"

namespace teraio::io {

struct ExtentFileOptions {
  int64_t size_bytes = 0;
  int64_t reserve_free_bytes = 0;  // stays free on the file system
  bool allow_ram_directory = false;
  // Until remove_name(): GPUDirect Storage needs the file's path. remove_orphans() removes the file
  // of a process that was killed before.
  bool keeps_name = false;
};

// Checks that `directory` exists, is a directory and is not on a RAM file system. Fails with a
// message that names it.
Status check_directory(const std::filesystem::path& directory, bool allow_ram_directory);

// Returns the bytes that the file system has free for this user, less the reserve, in whole blocks
// and never negative. Fails if the file system is read-only.
Result<int64_t> free_room_bytes(const std::filesystem::path& directory, int64_t reserve_free_bytes);

// Removes the files that processes which no longer live have left in `directory`. Such a file is
// named as create() names it, is not empty, and is not locked (flock): the owner has locked it
// since it was empty. Logs each removal. Files that cannot be examined or removed stay.
void remove_orphans(const std::filesystem::path& directory);

// Owns the file descriptor. The file has no name from the start (or from remove_name() on, see
// keeps_name): its bytes disappear when the process ends, however it ends and whatever children it
// leaves, and no other process can open it. Threads: one at a time; fd() and is_direct() from any.
class ExtentFile {
 public:
  // Creates a new file that only its owner may read, and preallocates every byte if the file system
  // can. Returns kOutOfSpace, kInvalidArgument, kNotFound or kIoError, with a message that names
  // the directory, and leaves no file.
  static Result<ExtentFile> create(const std::filesystem::path& directory,
                                   const ExtentFileOptions& options);

  ExtentFile() = default;
  ExtentFile(ExtentFile&& other) noexcept;
  ExtentFile& operator=(ExtentFile&& other) noexcept;
  ~ExtentFile();

  // Removes the file's name. Does nothing if it has none. A failure names the remaining file.
  Status remove_name();

  int fd() const { return fd_; }
  // False if the file system refuses direct I/O or does not honour it, or is served by a process
  // (FUSE), which may not: I/O goes through the page cache then, and a write has to be synced.
  bool is_direct() const { return is_direct_; }

 private:
  int fd_ = -1;
  ForkGuard guard_;
  int owner_pid_ = 0;  // of the process that created the file
  bool is_direct_ = false;
  std::filesystem::path name_;  // empty once the name is removed
};

}  // namespace teraio::io
