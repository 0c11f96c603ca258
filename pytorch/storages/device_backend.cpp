#include "storages/device_backend.h"

#include <cstdlib>
#include <map>

#include "storages/cpu_backend.h"
#include "storages/cuda_backend.h"

namespace teraio::pytorch {
namespace {

Result<DeviceBackend*> cuda_backend(int32_t ordinal) {
  static auto* backends = new std::map<int32_t, std::unique_ptr<DeviceBackend>>();
  auto& backend = (*backends)[ordinal];
  if (backend == nullptr) {
    auto made = make_cuda_backend(ordinal);
    if (!made.ok()) return made.status();
    backend = std::move(*made);
  }
  return backend.get();
}

}  // namespace

Result<DeviceBackend*> find_backend(const std::string& device) {
  if (device == "cpu") return &cpu_backend();
  if (device == "cuda") return cuda_backend(0);
  const std::string number = device.rfind("cuda:", 0) == 0 ? device.substr(5) : "";
  const bool is_number = !number.empty() && number.size() < 4 &&
                         number.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) return cuda_backend(std::atoi(number.c_str()));
  return Status(ErrorCode::kInvalidArgument, "device \"" + device +
                                                 "\" is not supported: expected \"cpu\", \"cuda\" "
                                                 "or \"cuda:0\"");
}

}  // namespace teraio::pytorch
