// An op as it ran: its arguments, and the settings that decide which bytes it gives.
//
// Threads: any. A captured op does not change, and owns no tensor: tensors are layouts over the
// bytes of inputs, and small ones are kept by value.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/replayer.h"
#include "engine/use.h"
#include "op_info.h"

namespace teraio::pytorch {

// A tensor argument: a view of an input, or a small tensor by value.
struct TensorArgument {
  std::optional<size_t> input;   // its index among the op's inputs
  std::vector<std::byte> value;  // its storage, when it is no input
  int64_t storage_bytes = 0;
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  bool is_number = false;  // counts as a Python number in type promotion

  // Whether the two have the same type and layout.
  bool is_like(const TensorArgument& other) const {
    return dtype == other.dtype && sizes == other.sizes && strides == other.strides &&
           offset == other.offset && device == other.device;
  }
};

struct TensorListArgument {
  std::vector<std::optional<TensorArgument>> tensors;
  bool has_optional_elements = false;
};
using Argument = std::variant<c10::IValue, TensorArgument, TensorListArgument>;

// What decides, besides an op's arguments, which bytes it gives.
struct Settings {
  bool is_autocast = false;
  c10::ScalarType autocast_dtype = c10::ScalarType::Undefined;
  c10::DeviceType autocast_device = c10::DeviceType::CPU;
  int thread_count = 1;
};

struct CapturedOp final : engine::ReplayableOp {
  explicit CapturedOp(const c10::OperatorHandle& handle) : op(handle) {}
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  Settings settings;
};

// Captures the op, whose arguments are the last ones of `stack`, before it runs. `uses` are the
// runtime's tensors among them. Those whose bytes a replay needs are appended to `inputs`. Returns
// null when the op cannot be replayed exactly: by its schema, for arguments that are not plain
// tensors and values, or in a mode that changes what ops do.
std::shared_ptr<const CapturedOp> capture_op(const c10::OperatorHandle& op, const OpInfo& info,
                                             const torch::jit::Stack& stack,
                                             std::span<const engine::Use> uses,
                                             std::vector<engine::LiveTensor*>& inputs);

// Returns whether the tensor is dense, on the CPU or a GPU, and its storage has its bytes.
bool is_plain(const at::Tensor& tensor);

// Returns the type and the layout of a plain tensor, without its bytes.
TensorArgument layout_of(const at::Tensor& tensor);

}  // namespace teraio::pytorch
