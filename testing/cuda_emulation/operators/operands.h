// Operands of an operator on the CPU: tensors of the device as CPU tensors over the same bytes.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <sstream>
#include <utility>
#include <vector>

namespace teraio::testing::emulated_cuda {

// A CPU tensor over the bytes of a tensor of the device. It does not keep them: memory that the
// program frees too early is to be seen. With `can_grow` a kernel may resize it, into other memory.
at::Tensor on_cpu(const at::Tensor& tensor, bool can_grow = false);

// Converts the arguments of one call.
class Operands {
 public:
  // Call for each argument in turn. Tensors of the CPU that the operator only reads are copied,
  // because the program may change them before the operator runs.
  c10::IValue convert(const c10::IValue& value, bool is_written);

  // The device of the arguments, or without an index.
  c10::Device device() const { return device_; }
  // The shapes of the arguments, and what else they are.
  std::string shapes() const { return shapes_.str(); }
  // Tensors that the operator writes: the CPU's, and the device's that it stands for.
  const std::vector<std::pair<at::Tensor, at::Tensor>>& written() const { return written_; }
  bool has_mask() const { return has_mask_; }
  bool writes_cpu_tensor() const { return writes_cpu_tensor_; }

 private:
  at::Tensor convert_tensor(const at::Tensor& tensor, bool is_written);
  at::Tensor convert_cpu_tensor(const at::Tensor& tensor, bool is_written);
  template <typename List>
  c10::IValue convert_list(const c10::IValue& value, bool is_written);

  c10::Device device_{c10::kCUDA, -1};
  std::ostringstream shapes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
  bool has_mask_ = false;
  bool writes_cpu_tensor_ = false;
};

}  // namespace teraio::testing::emulated_cuda
