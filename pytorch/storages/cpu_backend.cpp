#include "storages/cpu_backend.h"

#include <cstring>

#include "device/cpu_device.h"
#include "device/system_memory.h"
#include "storages/budgeted_allocator.h"
#include "storages/data_pointer.h"

namespace teraio::pytorch {
namespace {

class CpuBackend final : public DeviceBackend {
 public:
  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CPU); }

  Result<int64_t> memory_bytes() const override { return device::usable_memory_bytes("/"); }
  int64_t available_bytes(const std::filesystem::path& system_root) const override {
    return device::available_memory_bytes(system_root);
  }
  Result<int64_t> default_budget_bytes() const override {
    return Status(ErrorCode::kInvalidArgument,
                  "the device cpu needs a device budget: expected a size such as 8GB");
  }
  Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) override {
    return device::make_cpu_device(budget_bytes);
  }
  void install() override { install_allocator(); }

  bool owns(const c10::StorageImpl& storage) const override {
    return storage.device_type() == c10::DeviceType::CPU &&
           deleter_of(storage.data_ptr()) == stock_allocator()->raw_deleter();
  }
  void copy(std::byte* to, const c10::StorageImpl& from) override {
    std::memcpy(to, from.data(), from.nbytes());
  }
};

}  // namespace

DeviceBackend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace teraio::pytorch
