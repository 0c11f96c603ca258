// CufileLibrary: libcufile.so.0, found at run time and opened strictly. Private to cufile_io.cpp.
//
// cuFile's compatibility mode moves bytes through host memory while it looks like GPUDirect; our
// own staged way is faster and says what it is. So that mode is forbidden here, and where it cannot
// be forbidden the library is not used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"

namespace teraio::io {

// Where bytes go to or come from: `offset_bytes` from what begins at `base`. Of memory that is
// registered with cuFile, that has to be its begin.
struct CufilePlace {
  std::byte* base = nullptr;
  int64_t offset_bytes = 0;
};

// A file that cuFile knows. Before the file is closed it is destroyed.
class CufileHandle {
 public:
  virtual ~CufileHandle() = default;

  // Bytes moved, possibly fewer than asked for, or the negative number of an error that
  // cufile_error_text() explains: an errno or a code of cuFile.
  virtual int64_t read(CufilePlace to, int64_t size_bytes, int64_t offset_bytes) = 0;
  virtual int64_t write(CufilePlace from, int64_t size_bytes, int64_t offset_bytes) = 0;
};

// "internal error (cuFile error 5030)", "Input/output error (errno 5)".
std::string cufile_error_text(int64_t error_number);

// Any thread. The driver closes with the last user, never at the process's exit, and the library is
// never unloaded: both have crashed other programs.
class CufileLibrary {
 public:
  // `path` empty: $TERAIO_LIBCUFILE, else where the loader and the CUDA toolkit have it.
  // kUnsupported, with the reason, when there is none, or it cannot be used strictly.
  static Result<std::shared_ptr<CufileLibrary>> open(const std::filesystem::path& path = {});

  // `fd` was opened with O_DIRECT and still has a name. kUnsupported, with the reason, when bytes
  // cannot go directly between its drive and a device.
  virtual Result<std::unique_ptr<CufileHandle>> register_file(int fd) = 0;

  // Pins memory of the calling thread's current GPU, which is one allocation there, so that cuFile
  // moves bytes to and from it without a buffer of its own. kUnsupported, with the reason, when it
  // cannot. Before the memory is freed it is deregistered, and no I/O to it is under way.
  virtual Status register_memory(std::byte* begin, int64_t size_bytes) = 0;
  virtual void deregister_memory(std::byte* begin) = 0;

 protected:
  CufileLibrary() = default;
  CufileLibrary(const CufileLibrary&) = delete;
  CufileLibrary& operator=(const CufileLibrary&) = delete;
  ~CufileLibrary() = default;
};

}  // namespace teraio::io
