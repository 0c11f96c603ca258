// The part of NVIDIA's cuFile interface that TERAIO calls: types, constants and signatures.
//
// It follows the public API reference, so that a build needs neither the headers nor the library. A
// test compares it with the real header where one is installed. The layouts have been the same
// since cuFile 1.7.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace teraio::io::cufile {

// Result codes. A call that returns a count returns them negated.
inline constexpr int kSuccess = 0;
inline constexpr int kErrorBase = 5000;
inline constexpr int kDriverNotInitialized = 5001;
inline constexpr int kIoNotSupported = 5008;
inline constexpr int kInvalidFileType = 5018;
inline constexpr int kInvalidFileOpenFlag = 5019;
inline constexpr int kInvalidValue = 5022;
inline constexpr int kMemoryAlreadyRegistered = 5023;
inline constexpr int kMemoryNotRegistered = 5024;
inline constexpr int kDriverAlreadyOpen = 5026;
inline constexpr int kHandleAlreadyRegistered = 5028;
inline constexpr int kInternalError = 5030;
inline constexpr int kMemoryPinningFailed = 5036;

struct Error {
  int code = kSuccess;  // an enum in cuFile
  int cuda_code = 0;    // CUresult
};

inline constexpr int kHandleTypeFd = 1;

struct Descriptor {
  int type = kHandleTypeFd;
  union {
    int fd;
    void* handle;
  };
  const void* file_system_ops = nullptr;
};

using Handle = void*;

struct DriverProperties {
  struct {
    unsigned major_version;
    unsigned minor_version;
    size_t poll_threshold_kb;
    size_t max_direct_io_kb;
    unsigned status_flags;
    unsigned control_flags;
  } nvfs;
  unsigned feature_flags;
  unsigned max_device_cache_kb;
  unsigned per_buffer_cache_kb;
  unsigned max_pinned_kb;
  unsigned max_batch_count;
  unsigned max_batch_timeout_ms;
};

// Bit number in control_flags.
inline constexpr unsigned kAllowCompatModeBit = 1;

// Parameters with a boolean value.
inline constexpr int kParameterAllowCompatMode = 1;
inline constexpr int kParameterForceCompatMode = 2;

using DriverOpen = Error (*)();
using DriverClose = Error (*)();
using DriverGetProperties = Error (*)(DriverProperties*);
using HandleRegister = Error (*)(Handle*, Descriptor*);
using HandleDeregister = void (*)(Handle);
using BufferRegister = Error (*)(const void* base, size_t size, int flags);
using BufferDeregister = Error (*)(const void* base);
// `base` is the start of the memory; for registered memory, the start of the registration.
using Read = ssize_t (*)(Handle, void* base, size_t size, off_t file_offset, off_t base_offset);
using Write = ssize_t (*)(Handle, const void* base, size_t size, off_t file_offset,
                          off_t base_offset);
using GetParameterBool = Error (*)(int parameter, bool*);
using SetParameterBool = Error (*)(int parameter, bool);

}  // namespace teraio::io::cufile
