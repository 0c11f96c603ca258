// CufileLibrary: libcufile.so.0, loaded at run time and used strictly. Private to cufile_io.cpp.
//
// In its compatibility mode cuFile moves bytes through host memory while it appears to use
// GPUDirect Storage. Our own staging is faster and reports what it does. This class therefore
// disables the mode, and does not use a library in which that is impossible.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"

namespace teraio::io {

// The memory of a transfer: `offset_bytes` from `base`. For registered memory, `base` must be the
// start of the registration.
struct CufilePlace {
  std::byte* base = nullptr;
  int64_t offset_bytes = 0;
};

// A file that is registered with cuFile. Destroy this before closing the file. Any thread.
class CufileHandle {
 public:
  virtual ~CufileHandle() = default;

  // Return the number of bytes moved, possibly fewer than `size_bytes`, or the negative number of
  // an error, an errno or a cuFile code, which cufile_error_text() explains.
  virtual int64_t read(CufilePlace to, int64_t size_bytes, int64_t offset_bytes) = 0;
  virtual int64_t write(CufilePlace from, int64_t size_bytes, int64_t offset_bytes) = 0;
};

// Text such as "internal error (cuFile error 5030)" or "Input/output error (errno 5)".
std::string cufile_error_text(int64_t error_number);

// Any thread. The last user closes the driver, which never happens in the process's exit handlers,
// and the library is never unloaded: both have crashed other programs.
class CufileLibrary {
 public:
  // An empty path selects $TERAIO_LIBCUFILE, or else the places where the loader and the CUDA
  // toolkit keep the library. Returns kUnsupported, with the reason, if there is none or if it
  // cannot be used strictly.
  static Result<std::shared_ptr<CufileLibrary>> open(const std::filesystem::path& path = {});

  // `fd` is open with O_DIRECT and still has a name. Returns kUnsupported, with the reason, if
  // bytes cannot move directly between its drive and a device.
  virtual Result<std::unique_ptr<CufileHandle>> register_file(int fd) = 0;

  // Pins memory of the calling thread's current GPU, so that cuFile transfers need no buffer of its
  // own. The memory must be one allocation. Returns kUnsupported, with the reason, if that fails.
  // Deregister the memory before freeing it, while no I/O uses it.
  virtual Status register_memory(std::byte* begin, int64_t size_bytes) = 0;
  virtual void deregister_memory(std::byte* begin) = 0;

 protected:
  CufileLibrary() = default;
  CufileLibrary(const CufileLibrary&) = delete;
  CufileLibrary& operator=(const CufileLibrary&) = delete;
  ~CufileLibrary() = default;
};

}  // namespace teraio::io
