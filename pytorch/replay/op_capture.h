// OpCapture: captures an outermost op while it runs, so that it can be run again.
//
// What is captured are the calls of kernels, below autograd and autocast. An op that is composed of
// others, such as linear() or rms_norm(), decides by flags of its operands which others it calls,
// and autograd may save what they make. Of such an op, the ops that it calls are captured. So they
// are of an op on wrappers of PyTorch's own: these are the ops on the tensors inside.
//
// Threads: the one that runs the op.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/use.h"
#include "iteration/profile.h"
#include "op_info.h"
#include "replay/captured_op.h"

namespace teraio::pytorch {

class OpCapture {
 public:
  // The op begins; its arguments are the last ones of `stack`, and frame.uses are the runtime's
  // tensors among them. `frame` outlives the capture. `is_dry`: tensors are fake, and what is
  // captured only tells that the op could be run again. `has_wrappers`: among the arguments; the
  // calls on the tensors inside them come from a WrappedCalls.
  OpCapture(const engine::OpFrame& frame, const c10::OperatorHandle& op, const OpInfo& info,
            const torch::jit::Stack& stack, bool is_dry, bool has_wrappers);

  // Adds the FLOPs of a call within the outermost op, unless autograd runs a part of the forward
  // pass again (checkpoints of activations).
  void count_flops(const OpInfo& info, std::span<const c10::IValue> arguments);
  const iteration::FlopsByPrecision& flops() const { return flops_; }

  // Whether a call of an op within the outermost one is to be captured. If so, begin_call()
  // precedes it and end_call() follows it; where it raises, end_call() does not.
  bool wants(const OpInfo& info, const torch::jit::Stack& stack);
  void begin_call(const c10::OperatorHandle& op, const OpInfo& info,
                  const torch::jit::Stack& stack);
  // `results`: what the call has left on the stack.
  void end_call(std::span<const c10::IValue> results);

  // A call that the observer does not see. Gives up where it makes the op one that cannot be run
  // again exactly, whether it is to be captured or part of a kernel under way.
  void look_at_part(const OpInfo& info, const torch::jit::Stack& stack);

  // A kernel is under way, and what it calls is part of it.
  bool is_in_call() const { return call_.has_value(); }
  // The op cannot be run again exactly.
  void give_up() { is_exact_ = false; }

  // The op has ended with `results`. `births` are the tensors that it has made and that are alive.
  // Sets the inputs and results of `replay`, and returns the op. Returns null when it cannot be
  // run again exactly: it draws random numbers, changes an argument, waits for a collective, or has
  // arguments that are neither plain tensors and values nor wrappers of PyTorch's own around such,
  // or a mode of the program changes what ops do.
  std::shared_ptr<const CapturedOp> finish(std::span<const c10::IValue> results,
                                           std::span<engine::LiveTensor* const> births,
                                           engine::OpReplay& replay);

 private:
  bool can_capture(const at::Tensor& tensor) const;
  bool is_held(const engine::LiveTensor* tensor) const;
  TensorLayout layout_of(const at::Tensor& tensor) const;
  bool capture_arguments(const OpInfo& info, const torch::jit::Stack& stack);
  std::optional<Argument> capture_argument(const c10::IValue& value);
  bool capture_list(const c10::IValue& value, TensorListArgument& list);
  std::optional<TensorArgument> capture_tensor(const at::Tensor& tensor);
  // Returns nothing for a tensor that is being made.
  std::optional<size_t> input_index(engine::LiveTensor* tensor);
  bool changes_only_made(const OpInfo& info) const;
  void add_made(const at::Tensor& tensor, size_t result);
  void drop_idle_calls();
  void note_last_calls();
  std::vector<engine::LiveTensor*> read_inputs();

  const engine::OpFrame& frame_;
  const bool is_dry_;
  std::unique_ptr<CapturedOp> captured_;
  std::vector<engine::LiveTensor*> inputs_;
  std::unordered_map<uint64_t, size_t> made_;  // index in CapturedOp::made, by id of the tensor
  std::optional<CapturedCall> call_;           // under way
  const OpInfo* call_info_ = nullptr;
  const bool counts_flops_;
  iteration::FlopsByPrecision flops_;
  bool is_call_exact_ = true;
  bool is_exact_ = true;
  bool is_single_ = false;  // runs a kernel of its own
};

}  // namespace teraio::pytorch
