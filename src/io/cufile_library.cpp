#include "io/cufile_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "io/cufile_abi.h"
#include "io/diverted_output.h"

namespace teraio::io {
namespace {

using cufile::Error;

struct Symbols {
  cufile::DriverOpen driver_open = nullptr;
  cufile::DriverClose driver_close = nullptr;
  cufile::HandleRegister handle_register = nullptr;
  cufile::HandleDeregister handle_deregister = nullptr;
  cufile::Read read = nullptr;
  cufile::Write write = nullptr;
  // May be null: newer versions only, or not essential.
  cufile::BufferRegister buffer_register = nullptr;
  cufile::BufferDeregister buffer_deregister = nullptr;
  cufile::DriverGetProperties get_properties = nullptr;
  cufile::GetParameterBool get_bool = nullptr;
  cufile::SetParameterBool set_bool = nullptr;
};

// The program's setting.
struct CompatMode {
  bool is_known = false;
  bool is_allowed = true;
  bool is_forced = false;
};

// One loaded library. The mutex serializes opening and closing, which fail inside cuFile when
// several threads do so at once.
struct Loaded {
  std::string name;
  Symbols symbols;
  int32_t user_count = 0;
  bool is_ours_to_close = false;
  CompatMode compat_mode_before = {};
};

std::mutex library_mutex;

std::map<std::string, Loaded>& loaded_libraries() {
  static auto* libraries = new std::map<std::string, Loaded>();  // outlives static destructors
  return *libraries;
}

Status unusable(const std::string& why) {
  return Status(ErrorCode::kUnsupported, "GPUDirect Storage: " + why);
}

const char* text_of(int code) {
  switch (code) {
    case 5001:
      return "the driver is not initialized";
    case 5003:
      return "a limit is not supported";
    case 5007:
      return "GPUDirect Storage is not supported on this platform";
    case 5008:
      return "GPUDirect Storage is not supported for this file";
    case 5009:
      return "GPUDirect Storage is not supported on this GPU";
    case 5010:
      return "the nvidia-fs driver reports an error";
    case 5011:
      return "the CUDA driver reports an error";
    case 5013:
      return "this type of memory is not supported";
    case 5014:
      return "the memory is not within one allocation";
    case 5016:
    case 5017:
      return "the memory is beyond what is pinned";
    case 5018:
      return "this type of file is not supported";
    case 5019:
      return "the file was opened with a flag that is not supported";
    case 5022:
      return "an argument is not valid";
    case 5023:
      return "the memory is registered already";
    case 5024:
      return "the memory is not registered";
    case 5026:
      return "the driver is open already";
    case 5028:
      return "the file is registered already";
    case 5030:
      return "internal error";
    case 5034:
      return "GPUDirect Storage is switched off for this file";
    case 5036:
      return "memory of the GPU cannot be pinned";
    default:
      return "unknown error";
  }
}

std::string describe(const Error& error) {
  std::string text = fmt::format("{} (cuFile error {}", text_of(error.code), error.code);
  if (error.cuda_code != 0) text += fmt::format(", CUDA error {}", error.cuda_code);
  return text + ")";
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

Result<Symbols> find_symbols(void* library, const std::string& name) {
  Symbols symbols;
  find(library, "cuFileDriverOpen", symbols.driver_open);
  find(library, "cuFileDriverClose_v2", symbols.driver_close);
  if (symbols.driver_close == nullptr) find(library, "cuFileDriverClose", symbols.driver_close);
  find(library, "cuFileHandleRegister", symbols.handle_register);
  find(library, "cuFileHandleDeregister", symbols.handle_deregister);
  find(library, "cuFileRead", symbols.read);
  find(library, "cuFileWrite", symbols.write);
  find(library, "cuFileBufRegister", symbols.buffer_register);
  find(library, "cuFileBufDeregister", symbols.buffer_deregister);
  find(library, "cuFileDriverGetProperties", symbols.get_properties);
  find(library, "cuFileGetParameterBool", symbols.get_bool);
  find(library, "cuFileSetParameterBool", symbols.set_bool);
  const bool is_whole = symbols.driver_open && symbols.driver_close && symbols.handle_register &&
                        symbols.handle_deregister && symbols.read && symbols.write;
  if (is_whole) return symbols;
  return unusable(name + " lacks a function of cuFile: expected version 1.0 or newer");
}

std::vector<std::string> candidates(const std::filesystem::path& path) {
  if (!path.empty()) return {path.string()};
  if (const char* chosen = std::getenv("TERAIO_LIBCUFILE"); chosen != nullptr && *chosen != '\0')
    return {chosen};
  return {"libcufile.so.0", "/usr/local/cuda/lib64/libcufile.so.0"};
}

// The caller holds the mutex.
Result<Loaded*> load(const std::filesystem::path& path) {
  std::string failure;
  for (const std::string& name : candidates(path)) {
    if (const auto known = loaded_libraries().find(name); known != loaded_libraries().end())
      return &known->second;
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      if (failure.empty()) failure = dlerror();
      continue;
    }
    Result<Symbols> symbols = find_symbols(library, name);
    if (!symbols.ok()) return symbols.status();
    return &(loaded_libraries()[name] = Loaded{name, *symbols});
  }
  return unusable("the library cannot be loaded: " + failure);
}

CompatMode read_compat_mode(const Symbols& symbols) {
  CompatMode mode;
  if (symbols.get_bool == nullptr) return mode;
  mode.is_known =
      symbols.get_bool(cufile::kParameterAllowCompatMode, &mode.is_allowed).code ==
          cufile::kSuccess &&
      symbols.get_bool(cufile::kParameterForceCompatMode, &mode.is_forced).code == cufile::kSuccess;
  return mode;
}

// Parameters can be set only while the driver is closed. check_strictness() reads their effect.
void set_compat_mode(const Symbols& symbols, const CompatMode& mode) {
  if (symbols.set_bool == nullptr) return;
  symbols.set_bool(cufile::kParameterForceCompatMode, mode.is_forced);
  symbols.set_bool(cufile::kParameterAllowCompatMode, mode.is_allowed);
}

void forbid_compat_mode(Loaded& library) {
  library.compat_mode_before = read_compat_mode(library.symbols);
  set_compat_mode(library.symbols, {.is_allowed = false});
}

// The program may use cuFile without us.
void close_driver(const Loaded& library) {
  if (library.is_ours_to_close) library.symbols.driver_close();
  if (library.compat_mode_before.is_known)
    set_compat_mode(library.symbols, library.compat_mode_before);
}

Status check_strictness(const Loaded& library) {
  const Symbols& symbols = library.symbols;
  bool is_allowed = true;
  bool is_forced = false;
  if (symbols.get_bool != nullptr) {
    const CompatMode mode = read_compat_mode(symbols);
    is_allowed = mode.is_allowed || !mode.is_known;
    is_forced = mode.is_forced;
  } else if (cufile::DriverProperties properties{};
             symbols.get_properties != nullptr &&
             symbols.get_properties(&properties).code == cufile::kSuccess) {
    is_allowed = (properties.nvfs.control_flags >> cufile::kAllowCompatModeBit & 1) != 0;
  }
  if (!is_allowed && !is_forced) return Status();
  return unusable(library.name +
                  " allows its compatibility mode: set CUFILE_ALLOW_COMPAT_MODE=false "
                  "(older versions: \"allow_compat_mode\": false in cufile.json)");
}

// The caller holds the mutex.
Status begin_use(Loaded& library) {
  if (library.user_count == 0) {
    forbid_compat_mode(library);
    const Error error = library.symbols.driver_open();
    // If another part of the process opened the driver, we must not close it.
    library.is_ours_to_close = error.code == cufile::kSuccess;
    if (error.code != cufile::kSuccess && error.code != cufile::kDriverAlreadyOpen) {
      close_driver(library);
      return unusable("the driver cannot be opened: " + describe(error));
    }
    if (Status strict = check_strictness(library); !strict.ok()) {
      close_driver(library);
      return strict;
    }
  }
  ++library.user_count;
  return Status();
}

void end_use(Loaded& library) {
  const std::lock_guard lock(library_mutex);
  if (--library.user_count == 0) close_driver(library);
}

// cuFile returns a count, -1 with errno, or a negative code. Some versions store their own code in
// errno.
int64_t decode(ssize_t result, int error_number) {
  if (result >= 0) return result;
  if (result != -1) return result;
  return error_number != 0 ? -error_number : -EIO;
}

class Library;

class RegisteredFile final : public CufileHandle {
 public:
  RegisteredFile(std::shared_ptr<Library> library, const Symbols& symbols, cufile::Handle handle)
      : library_(std::move(library)), symbols_(symbols), handle_(handle) {}
  ~RegisteredFile() override { symbols_.handle_deregister(handle_); }

  int64_t read(CufilePlace to, int64_t size_bytes, int64_t offset_bytes) override {
    errno = 0;
    const ssize_t moved = symbols_.read(handle_, to.base, static_cast<size_t>(size_bytes),
                                        offset_bytes, to.offset_bytes);
    return decode(moved, errno);
  }
  int64_t write(CufilePlace from, int64_t size_bytes, int64_t offset_bytes) override {
    errno = 0;
    const ssize_t moved = symbols_.write(handle_, from.base, static_cast<size_t>(size_bytes),
                                         offset_bytes, from.offset_bytes);
    return decode(moved, errno);
  }

 private:
  const std::shared_ptr<Library> library_;  // keeps the driver open
  const Symbols& symbols_;
  const cufile::Handle handle_;
};

class Library final : public CufileLibrary, public std::enable_shared_from_this<Library> {
 public:
  explicit Library(Loaded& loaded) : loaded_(loaded) {}
  ~Library() { end_use(loaded_); }

  Result<std::unique_ptr<CufileHandle>> register_file(int fd) override {
    cufile::Descriptor descriptor;
    descriptor.handle = nullptr;
    descriptor.fd = fd;
    cufile::Handle handle = nullptr;
    const Error error = loaded_.symbols.handle_register(&handle, &descriptor);
    if (error.code != cufile::kSuccess)
      return unusable("the file cannot be registered: " + describe(error));
    return std::unique_ptr<CufileHandle>(
        std::make_unique<RegisteredFile>(shared_from_this(), loaded_.symbols, handle));
  }

  Status register_memory(std::byte* begin, int64_t size_bytes) override {
    const Symbols& symbols = loaded_.symbols;
    if (symbols.buffer_register == nullptr || symbols.buffer_deregister == nullptr)
      return unusable(loaded_.name + " cannot register memory");
    const Error error = symbols.buffer_register(begin, static_cast<size_t>(size_bytes), 0);
    if (error.code == cufile::kSuccess) return Status();
    return unusable("memory of the device cannot be registered: " + describe(error));
  }

  void deregister_memory(std::byte* begin) override { loaded_.symbols.buffer_deregister(begin); }

 private:
  Loaded& loaded_;
};

}  // namespace

std::string cufile_error_text(int64_t error_number) {
  const auto number = static_cast<int>(error_number);
  if (number < cufile::kErrorBase) return errno_text(number);
  return fmt::format("{} (cuFile error {})", text_of(number), number);
}

Result<std::shared_ptr<CufileLibrary>> CufileLibrary::open(const std::filesystem::path& path) {
  const std::lock_guard lock(library_mutex);
  const DivertedOutput diverted;  // cuFile prints why its driver does not open
  const Result<Loaded*> loaded = load(path);
  if (!loaded.ok()) return loaded.status();
  TERAIO_RETURN_IF_ERROR(begin_use(**loaded));
  return std::shared_ptr<CufileLibrary>(std::make_shared<Library>(**loaded));
}

}  // namespace teraio::io
