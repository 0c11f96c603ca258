// The functions of CUDA's driver that the runtime has no call for.
//
// The runtime finds them, so that programs link no driver and start on machines without one.
#pragma once

#include <cuda.h>

#include "base/status.h"

namespace teraio::device {

struct CudaDriver {
  decltype(&::cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) reserve_addresses = nullptr;
  decltype(&::cuMemAddressFree) free_addresses = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

// Returns the functions of the process, which live as long as it. kUnsupported: the driver lacks
// one; the message names it. Any thread.
Result<const CudaDriver*> cuda_driver();

// `what` names the attempted action: "map memory". Running out of memory becomes kOutOfMemory, any
// other failure kIoError.
Status cuda_driver_status(const CudaDriver& driver, CUresult result, const char* what);

}  // namespace teraio::device
