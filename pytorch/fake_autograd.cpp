#include "fake_autograd.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <string_view>
#include <typeinfo>
#include <utility>

namespace teraio::pytorch {
namespace {

// Of a torch.autograd.Function. Its type's name is all there is: the wheel keeps its type_info to
// itself, so that no cast to it links.
bool is_python_node(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

// The engine sums gradients before it runs the node that they are for, and user code is in no node
// of PyTorch's own, except in hooks and recomputation, which run with gradients on or in nodes of
// their own.
bool is_in_pytorch_node() {
  if (c10::GradMode::is_enabled()) return false;
  const auto node = torch::autograd::get_current_node();  // its pointer type depends on the version
  return node != nullptr && !is_python_node(*node);
}

// The wrapper that Python has of an object is a reference to it too.
template <typename T>
size_t reference_count(const T& object) {
  const size_t count = c10::raw::intrusive_ptr::use_count(const_cast<T*>(&object));
  return count - (object.pyobj_slot()->load_pyobj() != nullptr ? 1 : 0);
}

// Below autograd only fake tensors know what they are views of, and with the base its storage.
size_t storage_reference_count(const at::Tensor& tensor) {
  const c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const size_t count = reference_count(storage);
  if (!tensor.is_view()) return count;
  return count - (reference_count(*tensor._base().unsafeGetTensorImpl()) == 1 ? 1 : 0);
}

// The engine's own condition, with one more reference: that of the stack.
bool can_be_summed_into(const c10::IValue& value) {
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && tensor.has_storage() && tensor.is_non_overlapping_and_dense() &&
         reference_count(*tensor.unsafeGetTensorImpl()) == 2 &&
         storage_reference_count(tensor) == 1;
}

}  // namespace

std::optional<c10::OperatorHandle> as_sum_in_place(const OpInfo& info, torch::jit::Stack* stack) {
  if (info.name != "aten::add.Tensor" || !is_in_pytorch_node()) return std::nullopt;
  if (!can_be_summed_into((*stack)[stack->size() - 3])) return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow("aten::add_", "Tensor");
}

}  // namespace teraio::pytorch
