#include "testing/cuda_emulation/operators/emulate.h"

#include <ATen/ops/copy_native.h>
#include <c10/cuda/CUDAGuard.h>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/operators/cpu_call.h"
#include "testing/cuda_emulation/operators/op_facts.h"
#include "testing/cuda_emulation/operators/operands.h"
#include "testing/cuda_emulation/operators/own_kernels.h"
#include "testing/cuda_emulation/operators/results.h"

namespace teraio::testing::emulated_cuda {
namespace {

using torch::jit::Stack;

// One call of one operator.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op), facts_(facts_of(op)), arguments_(torch::jit::pop(stack, argument_count())) {
    convert_arguments();
  }

  Stack run() {
    const c10::cuda::CUDAGuard guard(device_);
    make_generator();
    const std::vector<ResultShape>* shapes = known_shapes();
    return shapes != nullptr ? run_later(*shapes) : run_now();
  }

 private:
  size_t argument_count() const { return op_.schema().arguments().size(); }

  void convert_arguments() {
    const BelowAutograd below;
    for (size_t i = 0; i < argument_count(); ++i) {
      const auto* alias = op_.schema().arguments()[i].alias_info();
      on_cpu_.push_back(operands_.convert(arguments_[i], alias != nullptr && alias->isWrite()));
    }
    device_ = operands_.device();
    if (!device_.has_index()) device_ = c10::Device(c10::kCUDA, c10::cuda::current_device());
  }

  bool draws_numbers() const {
    if (!facts_.is_random || facts_.dropout_index < 0) return facts_.is_random;
    return arguments_[static_cast<size_t>(facts_.dropout_index)].toDouble() != 0;
  }

  void make_generator() {
    if (!draws_numbers()) return;
    std::optional<at::Generator> given;
    const auto index = static_cast<size_t>(facts_.generator_index);
    const bool has_argument = facts_.generator_index >= 0;
    if (has_argument && arguments_[index].isGenerator()) given = arguments_[index].toGenerator();
    generator_ = cpu_generator(given, device_);
    if (has_argument) on_cpu_[index] = generator_;
  }

  // The number of elements that a mask chooses depends on its values.
  bool can_remember() const {
    const bool has_mask_index =
        operands_.has_mask() && facts_.name.find("index") != std::string::npos;
    return facts_.is_known_by_shape && !has_mask_index && !operands_.writes_cpu_tensor();
  }

  const std::vector<ResultShape>* known_shapes() {
    if (!can_remember()) return nullptr;
    const std::lock_guard lock(facts_.mutex);
    const std::string shapes = operands_.shapes();
    if (!facts_.makes_results)
      return &facts_.results.try_emplace(shapes, facts_.argument_of_result.size()).first->second;
    const auto found = facts_.results.find(shapes);
    return found == facts_.results.end() ? nullptr : &found->second;
  }

  static void compute(const c10::OperatorHandle& op, const OpFacts& facts,
                      const at::Generator& generator, Stack& values) {
    const BelowAutograd below;
    if (const OwnKernel kernel = find_own_kernel(facts.name))
      kernel(values, generator);
    else
      op.callBoxed(values);
  }

  c10::cuda::CUDAStream stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

  // A graph runs the task again, with the same operands.
  Stack run_later(const std::vector<ResultShape>& shapes) {
    DeviceResults results = make_results(facts_, arguments_, shapes, device_);
    run_in_order(stream(), facts_.name.c_str(),
                 [op = op_, &facts = facts_, generator = generator_, operands = on_cpu_,
                  targets = std::move(results.on_cpu)] {
                   Stack values = operands;
                   compute(op, facts, generator, values);
                   store_results(targets, values, facts.name.c_str());
                 });
    return std::move(results.values);
  }

  Stack run_now() {
    run_and_wait(stream(), facts_.name.c_str(),
                 [this] { compute(op_, facts_, generator_, on_cpu_); });
    const std::vector<ResultShape> shapes = shapes_of(facts_, on_cpu_);
    store_resized();
    DeviceResults results = make_results(facts_, arguments_, shapes, device_);
    keep_numbers(shapes, results);
    run_in_order(stream(), facts_.name.c_str(),
                 [values = on_cpu_, targets = std::move(results.on_cpu), &facts = facts_] {
                   store_results(targets, values, facts.name.c_str());
                 });
    if (can_remember()) remember(shapes);
    return std::move(results.values);
  }

  void remember(const std::vector<ResultShape>& shapes) {
    const std::lock_guard lock(facts_.mutex);
    facts_.results.emplace(operands_.shapes(), shapes);
  }

  // Tensors that the kernel has resized into other memory: the device's take shape and bytes.
  void store_resized() {
    for (const auto& [cpu, device] : operands_.written()) {
      const bool is_same = cpu.sizes() == device.sizes() &&
                           cpu.const_data_ptr() == shadow_of(device.const_data_ptr());
      if (is_same) continue;
      device.resize_(cpu.sizes());
      device.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides());
      run_in_order(stream(), "store a resized tensor", [from = cpu, to = on_cpu(device)] {
        const BelowAutograd below;
        to.copy_(from);
      });
    }
  }

  void keep_numbers(const std::vector<ResultShape>& shapes, DeviceResults& results) const {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const bool is_new = facts_.argument_of_result[i] < 0;
      if (is_new && shapes[i].tensors.empty() && !shapes[i].is_list) results.values[i] = on_cpu_[i];
    }
  }

  const c10::OperatorHandle op_;
  OpFacts& facts_;
  const Stack arguments_;
  Operands operands_;
  Stack on_cpu_;  // the arguments, then the results
  c10::Device device_{c10::kCUDA, -1};
  at::Generator generator_;
};

bool is_copied_by_runtime(const at::Tensor& to, const at::Tensor& from) {
  if (!to.is_cuda() || !from.is_cuda() || to.device() != from.device()) return true;
  return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
         to.is_contiguous() && from.is_contiguous() && to.is_conj() == from.is_conj() &&
         to.is_neg() == from.is_neg();
}

}  // namespace

void emulate(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  Stack results = Call(op, *stack).run();
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

void emulate_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const size_t first = stack->size() - 3;
  at::Tensor to = (*stack)[first].toTensor();
  const at::Tensor from = (*stack)[first + 1].toTensor();
  if (!is_copied_by_runtime(to, from)) return emulate(op, keys, stack);
  const bool non_blocking = (*stack)[first + 2].toBool();
  at::native::copy_(to, from, non_blocking);
  torch::jit::drop(*stack, 3);
  stack->push_back(to);
}

}  // namespace teraio::testing::emulated_cuda
