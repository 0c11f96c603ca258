// Running an op of the program again, so that it gives the bytes that it gave before.
//
// An op is replayed as its kernels ran: through the dispatcher, below autograd, with the autocast
// settings and the number of threads that it had, seen by neither the observer nor a mode of the
// program. Its tensor arguments are new tensors over the same bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "captured_op.h"
#include "device_backend.h"
#include "engine/replayer.h"

namespace teraio::pytorch {

// Runs the op again, with the bytes of its inputs, and returns its results. Raises what the op
// raises. Threads: any, without the runtime's lock.
torch::jit::Stack replay(const CapturedOp& captured, std::span<std::byte* const> inputs);

// Applies settings to the calling thread, and keeps autograd, the observer and all modes away.
class ReplayScope {
 public:
  explicit ReplayScope(const Settings& settings);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  const at::NoGradGuard no_grad_;
  const c10::impl::ForceDispatchKeyGuard keys_;
  const c10::DeviceType autocast_device_;
  const c10::ScalarType autocast_dtype_;
  const int thread_count_;
};

// Returns a tensor over memory that outlives it.
at::Tensor tensor_over(const TensorArgument& layout, std::byte* memory);

// Returns the tensors among the results of an op, also those in lists.
std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> results);

// Returns the runtime's tensors that are results of an op, one entry for each of tensors_in(); null
// for a tensor that the runtime does not manage.
std::vector<engine::LiveTensor*> live_tensors_in(std::span<const c10::IValue> results);

// Replays on the session's stream, whichever stream the thread is on: the memory of the results
// belongs to the runtime, which orders it with that stream.
class TorchReplayer final : public engine::Replayer {
 public:
  explicit TorchReplayer(DeviceBackend& backend) : backend_(backend) {}
  Result<std::unique_ptr<engine::ReplayResults>> run(const engine::ReplayableOp& op,
                                                     std::span<std::byte* const> inputs) override;
  // Releases the GIL meanwhile, which the other thread may need.
  void wait(const std::function<void()>& call) override;

 private:
  DeviceBackend& backend_;
};

}  // namespace teraio::pytorch
