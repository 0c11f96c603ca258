// An op as it ran: the calls of kernels that it consisted of, with their arguments and the settings
// that decide which bytes they give.
//
// Threads: any. A captured op does not change, and owns no tensor: tensors are layouts over the
// bytes of inputs or of tensors that earlier calls make, and small ones are kept by value.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/replayer.h"
#include "replay/kernel_flags.h"

namespace teraio::pytorch {

// The type and the layout of a tensor over the bytes of a storage.
struct TensorLayout {
  int64_t storage_bytes = 0;
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  bool is_number = false;  // counts as a Python number in type promotion

  // Whether the two views of their storages are the same.
  bool is_like(const TensorLayout& other) const {
    return dtype == other.dtype && sizes == other.sizes && strides == other.strides &&
           offset == other.offset && device == other.device;
  }
};

struct TensorArgument {
  enum class Source : uint8_t {
    kInput,  // the bytes of the op's input `index`
    kMade,   // the bytes of the tensor `index` that an earlier call makes
    kValue,  // a small tensor
  };
  TensorLayout layout;
  Source source = Source::kValue;
  size_t index = 0;
  std::vector<std::byte> value;  // the storage of a small tensor
};

struct TensorListArgument {
  std::vector<std::optional<TensorArgument>> tensors;
  bool has_optional_elements = false;
};
using Argument = std::variant<c10::IValue, TensorArgument, TensorListArgument>;

// What decides, besides its arguments, which bytes a call gives.
struct Settings {
  bool has_grad_mode = false;  // without it, oneDNN's recurrent layers save no workspace
  bool is_autocast = false;
  c10::ScalarType autocast_dtype = c10::ScalarType::Undefined;
  c10::DeviceType device = c10::DeviceType::CPU;
  int thread_count = 1;
  std::fenv_t float_environment = {};  // of the thread: whether denormal numbers are flushed to 0
  KernelFlags flags;
};

struct CapturedCall {
  explicit CapturedCall(const c10::OperatorHandle& handle) : op(handle) {}
  c10::OperatorHandle op;
  uint64_t name_hash = 0;  // OpInfo::name_hash
  std::vector<Argument> arguments;
  Settings settings;
  // The tensors over new storages among its results.
  struct Made {
    size_t result = 0;  // among tensors_in() of the results
    size_t index = 0;   // in CapturedOp::made
  };
  std::vector<Made> made;
  bool changes_made = false;  // tensors of earlier calls
};

// A tensor over a storage that a call makes.
struct MadeTensor {
  TensorLayout layout;
  bool is_result = false;  // alive after the op; the others are freed after their last use
  size_t last_call = 0;    // that uses it
};

struct CapturedOp final : engine::ReplayableOp {
  std::string name_of_result(size_t result) const override;

  std::string_view name;      // OpInfo::name
  bool has_wrappers = false;  // among its arguments: what the calls read is inside them
  std::vector<CapturedCall> calls;
  std::vector<MadeTensor> made;
};

// Returns whether the tensor is dense, on the CPU or a GPU, and its storage has its bytes.
bool is_plain(const at::Tensor& tensor);

// Returns the type and the layout of a plain tensor.
TensorLayout layout_of(const at::Tensor& tensor);

// Returns the tensors among values, also those in lists.
std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values);

// Calls `visit(argument)` for each tensor of a call.
template <typename Call, typename Visit>
void for_each_tensor(Call& call, Visit visit) {
  for (auto& argument : call.arguments) {
    if (auto* tensor = std::get_if<TensorArgument>(&argument)) visit(*tensor);
    if (auto* list = std::get_if<TensorListArgument>(&argument))
      for (auto& element : list->tensors)
        if (element) visit(*element);
  }
}

}  // namespace teraio::pytorch
