#include "device/cuda/cuda_driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/cuda/cuda_status.h"

namespace teraio::device {
namespace {

// CUDA 12.5 added the call that CUDA 13 has alone.
cudaError_t find(const char* name, void** function, cudaDriverEntryPointQueryResult* found) {
#if CUDART_VERSION >= 12050
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, cudaEnableDefault, found);
#else
  return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, found);
#endif
}

template <typename Function>
void look_up(const char* name, Function& function, Status& status) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const bool is_asked = has_succeeded(find(name, &address, &found));
  if (is_asked && found == cudaDriverEntryPointSuccess && address != nullptr) {
    function = reinterpret_cast<Function>(address);
  } else if (status.ok()) {
    status = Status(ErrorCode::kUnsupported,
                    fmt::format("cuda: the driver has no {}: expected one for CUDA {}.{} or newer",
                                name, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  }
}

struct Lookup {
  CudaDriver driver;
  Status status;

  Lookup() {
    look_up("cuDeviceGetAttribute", driver.device_attribute, status);
    look_up("cuGetErrorString", driver.error_string, status);
    look_up("cuMemGetAllocationGranularity", driver.granularity, status);
    look_up("cuMemAddressReserve", driver.reserve_addresses, status);
    look_up("cuMemAddressFree", driver.free_addresses, status);
    look_up("cuMemCreate", driver.create, status);
    look_up("cuMemRelease", driver.release, status);
    look_up("cuMemMap", driver.map, status);
    look_up("cuMemUnmap", driver.unmap, status);
    look_up("cuMemSetAccess", driver.set_access, status);
  }
};

}  // namespace

Result<const CudaDriver*> cuda_driver() {
  static const Lookup lookup;
  if (!lookup.status.ok()) return lookup.status;
  return &lookup.driver;
}

Status cuda_driver_status(const CudaDriver& driver, CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  const char* text = nullptr;
  if (driver.error_string(result, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown error";
  const ErrorCode code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kOutOfMemory : ErrorCode::kIoError;
  return Status(code,
                fmt::format("cuda: {}: {} (CUresult {})", what, text, static_cast<int>(result)));
}

}  // namespace teraio::device
