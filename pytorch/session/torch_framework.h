// TorchFramework: PyTorch, as a run of training sees it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "observe/op_origins.h"
#include "replay/op_replay.h"
#include "replay/steady_precision.h"
#include "replay/tried_ops.h"
#include "runtime/framework.h"
#include "storages/device_backend.h"
#include "storages/storage_swap.h"

namespace teraio::pytorch {

// Threads: as for runtime::Framework.
class TorchFramework final : public runtime::Framework {
 public:
  // `system_root`: as for DeviceBackend::available_bytes().
  TorchFramework(DeviceBackend& backend, std::filesystem::path system_root)
      : backend_(backend), system_root_(std::move(system_root)), replayer_(backend) {}

  Result<int64_t> default_budget_bytes() const override { return backend_.default_budget_bytes(); }
  Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) override {
    return backend_.make_device(budget_bytes);
  }
  int64_t available_bytes() const override { return backend_.available_bytes(system_root_); }

  engine::StorageSwap& swap() override { return swap_; }
  engine::Replayer& replayer() override { return replayer_; }

  engine::WaitInterrupt& wait_interrupt() override;
  bool is_interrupted() override;
  bool wait_without_other_lock(const std::function<void()>& wait) override;
  bool wait_for_unpin() override;

  DeviceBackend& backend() { return backend_; }
  // What the hooks remember of the program's ops.
  TriedOps& tried_ops() { return tried_ops_; }
  OpOrigins& origins() { return origins_; }
  SteadyPrecision& steady_precision() { return steady_precision_; }

 private:
  DeviceBackend& backend_;
  const std::filesystem::path system_root_;
  TorchStorageSwap swap_;
  TorchReplayer replayer_;
  TriedOps tried_ops_;
  OpOrigins origins_;
  SteadyPrecision steady_precision_;
};

}  // namespace teraio::pytorch
