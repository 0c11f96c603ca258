// Running an op of the program again, so that it gives the bytes that it gave before.
//
// Its kernels are called as they were: through the dispatcher, below autograd, with the settings
// that they had (autocast, the number of threads, flags of PyTorch), seen by neither the observer
// nor a mode of the program. Their tensor arguments are new tensors over the same bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cfenv>
#include <memory>
#include <span>
#include <vector>

#include "engine/replayer.h"
#include "replay/captured_op.h"
#include "storages/device_backend.h"

namespace teraio::pytorch {

// Runs the op again, with the bytes of its inputs. Returns a tensor for each of CapturedOp::made,
// undefined unless it is a result. Raises what the op raises, and where float32 products have
// another precision now than they had then. Threads: any, without the runtime's lock.
std::vector<at::Tensor> replay(const CapturedOp& captured, std::span<std::byte* const> inputs);

// Applies settings to the calling thread, and keeps autograd, the observer and all modes away.
class ReplayScope {
 public:
  explicit ReplayScope(const Settings& settings);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  const at::AutoGradMode grad_mode_;
  const c10::impl::ForceDispatchKeyGuard keys_;
  const c10::DeviceType autocast_device_;
  const c10::ScalarType autocast_dtype_;
  const int thread_count_;
  std::fenv_t float_environment_ = {};
  const KernelFlags flags_;
};

// Returns a tensor over memory that outlives it.
at::Tensor tensor_over(const TensorLayout& layout, std::byte* memory);

// Replays on the session's stream, whichever stream the thread is on: the memory of the results
// belongs to the runtime, which orders it with that stream.
class TorchReplayer final : public engine::Replayer {
 public:
  explicit TorchReplayer(DeviceBackend& backend) : backend_(backend) {}
  Result<std::unique_ptr<engine::ReplayResults>> run(const engine::ReplayableOp& op,
                                                     std::span<std::byte* const> inputs) override;

 private:
  DeviceBackend& backend_;
};

}  // namespace teraio::pytorch
