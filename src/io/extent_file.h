// ExtentFile: the preallocated, unlinked file that a drive's extents lie in.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"

namespace teraio::io {

struct ExtentFileOptions {
  int64_t size_bytes = 0;
  int64_t reserve_free_bytes = 0;  // left free on the file system
  bool allow_ram_directory = false;
  bool keeps_name = false;  // until remove_name(): GPUDirect Storage looks at a file's path
};

// Checks that `directory` can hold extents: it exists, is a directory, is not on a RAM file system.
Status check_directory(const std::filesystem::path& directory, bool allow_ram_directory);

// What the file system has free for us, less the reserve; never negative.
Result<int64_t> free_room_bytes(const std::filesystem::path& directory, int64_t reserve_free_bytes);

// Owns the descriptor. The file has no name from the start on (or soon, see keeps_name): its bytes
// are gone when the process ends, however it ends, and nobody else can open them.
class ExtentFile {
 public:
  // A new file, never an existing one; not readable by others; every byte preallocated.
  static Result<ExtentFile> create(const std::filesystem::path& directory,
                                   const ExtentFileOptions& options);

  ExtentFile() = default;
  ExtentFile(ExtentFile&& other) noexcept;
  ExtentFile& operator=(ExtentFile&& other) noexcept;
  ~ExtentFile();

  // Once; nothing when it has none. A failure names the file that is left.
  Status remove_name();

  int fd() const { return fd_; }
  // False: the file system refused direct I/O, so the page cache is in the way.
  bool is_direct() const { return is_direct_; }

 private:
  int fd_ = -1;
  bool is_direct_ = false;
  std::filesystem::path name_;  // empty: it has none any more
};

}  // namespace teraio::io
