#include "testing/fake_cufile/fake_cufile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "io/cufile_abi.h"
#include "testing/cuda_emulation/launch.h"
#include "testing/stepped_device.h"

// Null where the emulated runtime is not in the process.
namespace teraio::testing::emulated_cuda {
[[gnu::weak]] void* shadow_of(const void* device_address);
}

namespace {

namespace cufile = teraio::io::cufile;
using teraio::testing::FakeCufile;

struct File {
  int fd;
  bool is_compat;
};

std::mutex mutex;
FakeCufile fake;
std::set<int> registered;
std::map<const std::byte*, int64_t> registered_memory;  // sizes by start address
bool is_open = false;

// Old versions read it from their configuration file only.
bool is_compat_allowed_now() {
  return FAKE_CUFILE_VERSION >= 1150 ? fake.is_compat_allowed : fake.keeps_compat_mode;
}

cufile::Error error(int code) { return {code, 0}; }

#if FAKE_CUFILE_VERSION > 0
bool is_aligned(const void* base, size_t size, off_t offset) {
  return (reinterpret_cast<uintptr_t>(base) | size | static_cast<uint64_t>(offset)) % 4096 == 0;
}

// Where this library finds the bytes at an address, as the GPU's DMA would.
std::byte* bytes_at(const void* base, off_t offset) {
  const std::byte* address = static_cast<const std::byte*>(base) + offset;
  if (fake.device != nullptr) return fake.device->bytes(address);
  using teraio::testing::emulated_cuda::shadow_of;
  if (shadow_of != nullptr) return static_cast<std::byte*>(shadow_of(address));
  return const_cast<std::byte*>(address);
}

// The caller holds the mutex.
void note_memory(const void* base, size_t size, off_t base_offset) {
  const auto* begin = static_cast<const std::byte*>(base);
  const std::byte* memory = begin + base_offset;
  const auto next = registered_memory.upper_bound(memory + size - 1);
  if (next == registered_memory.begin()) return;
  const auto& [known, known_bytes] = *std::prev(next);
  if (memory >= known + known_bytes) return;  // not registered
  const bool is_within = memory >= known && memory + size <= known + known_bytes;
  ++fake.registered_call_count;
  if (begin != known || !is_within) ++fake.memory_misuse_count;
}

// Returns true if the call is over, with `result`.
bool interferes(const File& file, const void* base, off_t base_offset, size_t& size, off_t offset,
                ssize_t& result) {
  const std::lock_guard lock(mutex);
  ++fake.call_count;
  note_memory(base, size, base_offset);
  if (file.is_compat) ++fake.compat_count;
  if (!is_aligned(static_cast<const std::byte*>(base) + base_offset, size, offset))
    ++fake.misaligned_count;
  const int64_t since = fake.call_count - fake.failing_from;
  if (fake.failing_from > 0 && since >= 0 && since < fake.failing_count) {
    errno = fake.failure_errno;
    result = fake.failure_result;
    return true;
  }
  if (fake.short_bytes > 0) size = std::min<size_t>(size, fake.short_bytes);
  return false;
}
#endif

}  // namespace

extern "C" {

FakeCufile* fake_cufile() { return &fake; }

int64_t fake_cufile_observed(const char* name) {
  static const std::map<std::string_view, const int64_t*> observations = {
      {"handle_count", &fake.handle_count},
      {"call_count", &fake.call_count},
      {"compat_count", &fake.compat_count},
      {"misaligned_count", &fake.misaligned_count},
      {"memory_count", &fake.memory_count},
      {"registered_call_count", &fake.registered_call_count},
      {"memory_misuse_count", &fake.memory_misuse_count},
  };
  const std::lock_guard lock(mutex);
  const auto found = observations.find(name);
  return found == observations.end() ? -1 : *found->second;
}

void fake_cufile_fail(int64_t from, int64_t result) {
  const std::lock_guard lock(mutex);
  fake.failing_from = from;
  fake.failing_count = std::numeric_limits<int64_t>::max();
  fake.failure_result = result;
}

cufile::Error cuFileDriverOpen() {
  const std::lock_guard lock(mutex);
  ++fake.driver_open_count;
  if (fake.driver_open_error != 0) {
    std::printf(" cuFile initialization failed\n");  // as the real one does
    return error(fake.driver_open_error);
  }
  if (is_open || fake.is_driver_open_already) return error(cufile::kDriverAlreadyOpen);
  is_open = true;
  return error(cufile::kSuccess);
}

cufile::Error cuFileDriverClose_v2() {
  const std::lock_guard lock(mutex);
  ++fake.driver_close_count;
  is_open = false;
  fake.is_compat_allowed = true;
  return error(cufile::kSuccess);
}

cufile::Error cuFileDriverGetProperties(cufile::DriverProperties* properties) {
  const std::lock_guard lock(mutex);
  *properties = {};
  properties->nvfs.major_version = 2;
  if (is_compat_allowed_now()) properties->nvfs.control_flags = 1u << cufile::kAllowCompatModeBit;
  return error(cufile::kSuccess);
}

cufile::Error cuFileHandleRegister(cufile::Handle* handle, cufile::Descriptor* descriptor) {
  const std::lock_guard lock(mutex);
  if (!is_open && !fake.is_driver_open_already) return error(cufile::kDriverNotInitialized);
  if (descriptor->type != cufile::kHandleTypeFd) return error(cufile::kInvalidFileType);
  const int flags = fcntl(descriptor->fd, F_GETFL);
  constexpr int kRefused =
      O_APPEND | O_NONBLOCK | O_NOFOLLOW | O_NOATIME | (O_TMPFILE & ~O_DIRECTORY);
  if (flags < 0 || (flags & kRefused) != 0) return error(cufile::kInvalidFileOpenFlag);
  struct stat info;
  if (fstat(descriptor->fd, &info) != 0 || info.st_nlink == 0 || !S_ISREG(info.st_mode))
    return error(cufile::kInvalidFileType);
  const bool is_direct = fake.has_direct_path && (flags & O_DIRECT) != 0;
  const bool may_be_compat = is_compat_allowed_now() || fake.is_compat_forced;
  if (!is_direct && !may_be_compat) return error(cufile::kIoNotSupported);
  if (!registered.insert(descriptor->fd).second) return error(cufile::kHandleAlreadyRegistered);
  ++fake.handle_count;
  *handle = new File{descriptor->fd, !is_direct || fake.is_compat_forced};
  return error(cufile::kSuccess);
}

void cuFileHandleDeregister(cufile::Handle handle) {
  const std::lock_guard lock(mutex);
  const File* file = static_cast<const File*>(handle);
  registered.erase(file->fd);
  --fake.handle_count;
  delete file;
}

#if FAKE_CUFILE_VERSION >= 1150
cufile::Error cuFileBufRegister(const void* base, size_t size, int) {
  const std::lock_guard lock(mutex);
  ++fake.memory_registrations;
  if (fake.memory_error != 0) return error(fake.memory_error);
  const auto* begin = static_cast<const std::byte*>(base);
  if (!registered_memory.emplace(begin, static_cast<int64_t>(size)).second)
    return error(cufile::kMemoryAlreadyRegistered);
  ++fake.memory_count;
  fake.memory_bytes += static_cast<int64_t>(size);
  return error(cufile::kSuccess);
}

cufile::Error cuFileBufDeregister(const void* base) {
  const std::lock_guard lock(mutex);
  const auto found = registered_memory.find(static_cast<const std::byte*>(base));
  if (found == registered_memory.end()) {
    ++fake.memory_misuse_count;
    return error(cufile::kMemoryNotRegistered);
  }
  --fake.memory_count;
  fake.memory_bytes -= found->second;
  registered_memory.erase(found);
  return error(cufile::kSuccess);
}
#endif

#if FAKE_CUFILE_VERSION > 0
ssize_t cuFileRead(cufile::Handle handle, void* base, size_t size, off_t file_offset,
                   off_t base_offset) {
  const File file = *static_cast<const File*>(handle);
  ssize_t result = 0;
  if (interferes(file, base, base_offset, size, file_offset, result)) return result;
  std::byte* memory = bytes_at(base, base_offset);
  const ssize_t moved = pread(file.fd, memory, size, file_offset);
  if (moved > 0 && fake.corrupts_reads) memory[moved / 2] ^= std::byte{1};
  return moved;
}

ssize_t cuFileWrite(cufile::Handle handle, const void* base, size_t size, off_t file_offset,
                    off_t base_offset) {
  const File file = *static_cast<const File*>(handle);
  ssize_t result = 0;
  if (interferes(file, base, base_offset, size, file_offset, result)) return result;
  return pwrite(file.fd, bytes_at(base, base_offset), size, file_offset);
}
#endif

#if FAKE_CUFILE_VERSION >= 1150
cufile::Error cuFileGetVersion(int* version) {
  *version = FAKE_CUFILE_VERSION;
  return error(cufile::kSuccess);
}

cufile::Error cuFileSetParameterBool(int parameter, bool value) {
  const std::lock_guard lock(mutex);
  if (is_open || fake.is_driver_open_already) return error(cufile::kDriverAlreadyOpen);
  if (parameter == cufile::kParameterAllowCompatMode && !fake.keeps_compat_mode)
    fake.is_compat_allowed = value;
  return error(cufile::kSuccess);
}

cufile::Error cuFileGetParameterBool(int parameter, bool* value) {
  const std::lock_guard lock(mutex);
  if (parameter == cufile::kParameterAllowCompatMode) *value = fake.is_compat_allowed;
  if (parameter == cufile::kParameterForceCompatMode) *value = fake.is_compat_forced;
  return error(cufile::kSuccess);
}
#endif

}  // extern "C"
