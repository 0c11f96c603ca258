// Compares our declarations of cuFile with the real header, where one is installed.
#include "io/cufile_abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef TERAIO_HAS_CUFILE_HEADER
#include <cufile.h>

#include <cstdlib>
#include <type_traits>

#include "io/cufile_library.h"

namespace teraio::io {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

static_assert(sizeof(cufile::Error) == sizeof(CUfileError_t));
static_assert(offsetof(cufile::Error, code) == offsetof(CUfileError_t, err));
static_assert(offsetof(cufile::Error, cuda_code) == offsetof(CUfileError_t, cu_err));

static_assert(sizeof(cufile::Descriptor) == sizeof(CUfileDescr_t));
static_assert(offsetof(cufile::Descriptor, fd) == offsetof(CUfileDescr_t, handle.fd));
static_assert(offsetof(cufile::Descriptor, file_system_ops) == offsetof(CUfileDescr_t, fs_ops));
static_assert(cufile::kHandleTypeFd == CU_FILE_HANDLE_TYPE_OPAQUE_FD);
static_assert(std::is_same_v<cufile::Handle, CUfileHandle_t>);

static_assert(sizeof(cufile::DriverProperties) == sizeof(CUfileDrvProps_t));
static_assert(offsetof(cufile::DriverProperties, nvfs.control_flags) ==
              offsetof(CUfileDrvProps_t, nvfs.dcontrolflags));
static_assert(offsetof(cufile::DriverProperties, nvfs.status_flags) ==
              offsetof(CUfileDrvProps_t, nvfs.dstatusflags));
static_assert(offsetof(cufile::DriverProperties, max_batch_timeout_ms) ==
              offsetof(CUfileDrvProps_t, max_batch_io_timeout_msecs));
static_assert(cufile::kAllowCompatModeBit == CU_FILE_ALLOW_COMPAT_MODE);

static_assert(cufile::kErrorBase == CUFILEOP_BASE_ERR);
static_assert(cufile::kSuccess == CU_FILE_SUCCESS);
static_assert(cufile::kDriverNotInitialized == CU_FILE_DRIVER_NOT_INITIALIZED);
static_assert(cufile::kIoNotSupported == CU_FILE_IO_NOT_SUPPORTED);
static_assert(cufile::kInvalidFileType == CU_FILE_INVALID_FILE_TYPE);
static_assert(cufile::kInvalidFileOpenFlag == CU_FILE_INVALID_FILE_OPEN_FLAG);
static_assert(cufile::kInvalidValue == CU_FILE_INVALID_VALUE);
static_assert(cufile::kMemoryAlreadyRegistered == CU_FILE_MEMORY_ALREADY_REGISTERED);
static_assert(cufile::kMemoryNotRegistered == CU_FILE_MEMORY_NOT_REGISTERED);
static_assert(cufile::kMemoryPinningFailed == CU_FILE_GPU_MEMORY_PINNING_FAILED);
static_assert(cufile::kDriverAlreadyOpen == CU_FILE_DRIVER_ALREADY_OPEN);
static_assert(cufile::kHandleAlreadyRegistered == CU_FILE_HANDLE_ALREADY_REGISTERED);
static_assert(cufile::kInternalError == CU_FILE_INTERNAL_ERROR);

static_assert(cufile::kParameterAllowCompatMode == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
static_assert(cufile::kParameterForceCompatMode == CUFILE_PARAM_FORCE_COMPAT_MODE);
static_assert(sizeof(CUFileBoolConfigParameter_t) == sizeof(int));

// Signatures whose types have other names but equal sizes differ as types, so the checks compare
// sizes and counts.
static_assert(std::is_same_v<cufile::Read, decltype(&cuFileRead)>);
static_assert(std::is_same_v<cufile::Write, decltype(&cuFileWrite)>);
static_assert(std::is_same_v<cufile::HandleDeregister, decltype(&cuFileHandleDeregister)>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileDriverOpen)>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileHandleRegister), CUfileHandle_t*,
                                    CUfileDescr_t*>);
static_assert(
    std::is_invocable_r_v<CUfileError_t, decltype(&cuFileBufRegister), const void*, size_t, int>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileBufDeregister), const void*>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileGetVersion), int*>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileGetParameterBool),
                                    CUFileBoolConfigParameter_t, bool*>);
static_assert(std::is_invocable_r_v<CUfileError_t, decltype(&cuFileSetParameterBool),
                                    CUFileBoolConfigParameter_t, bool>);

// If this file compiles, the static assertions above hold. This test loads the real library, which
// must have the functions that we call. Without a GPU its driver cannot be opened.
TEST(CufileAbi, TheRealLibraryAnswers) {
  setenv("CUFILE_LOGFILE_PATH", "/dev/null", 1);
  const auto library = CufileLibrary::open(TERAIO_CUFILE_LIBRARY);
  if (library.ok()) {
    EXPECT_NE(*library, nullptr);
    return;
  }
  EXPECT_EQ(library.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(library.status().message(),
              AnyOf(HasSubstr("the driver cannot be opened: "), HasSubstr("compatibility mode")));
}

}  // namespace
}  // namespace teraio::io

#else

namespace teraio::io {

TEST(CufileAbi, TheRealLibraryAnswers) {
  GTEST_SKIP() << "no cufile.h of version 1.15 or newer here: neither the wheel nvidia-cufile nor "
                  "a CUDA toolkit";
}

}  // namespace teraio::io

#endif
