#include "observe/fake_autograd.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

namespace teraio::pytorch {
namespace {

// Returns whether the node belongs to a torch.autograd.Function. The PyTorch wheel does not export
// the type_info of PyNode, so a dynamic_cast to it does not link, and the type's name must do.
bool is_python_node(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

// The nodes that run, the innermost one last.
thread_local std::vector<const torch::autograd::Node*> running_nodes;

// nullptr: none.
const torch::autograd::Node* current_node() {
  const auto node = torch::autograd::get_current_node();  // its pointer type depends on the version
  return node == nullptr ? nullptr : &*node;
}

std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction&) {
  running_nodes.push_back(current_node());
  return nullptr;
}

void end_node(const at::RecordFunction&, at::ObserverContext*) { running_nodes.pop_back(); }

// Returns whether an autograd node of PyTorch's own is current and has ended. The engine sums the
// gradients of a node then. User code does not run there, except for hooks and recomputation, which
// run with gradients enabled or in nodes of their own.
bool is_after_pytorch_node() {
  const auto* node = current_node();
  if (c10::GradMode::is_enabled() || node == nullptr || is_python_node(*node)) return false;
  return running_nodes.empty() || running_nodes.back() != node;
}

// Returns the number of references without that of the object's Python wrapper.
template <typename T>
size_t reference_count(const T& object) {
  const size_t count = c10::raw::intrusive_ptr::use_count(const_cast<T*>(&object));
  return count - (object.pyobj_slot()->load_pyobj() != nullptr ? 1 : 0);
}

// Returns the number of references to the tensor's storage that a real tensor would have. A fake
// tensor that is a view keeps its base alive below autograd, too, and with it one more reference to
// the storage; a base that nothing else uses does not count.
size_t storage_reference_count(const at::Tensor& tensor) {
  const c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const size_t count = reference_count(storage);
  if (!tensor.is_view()) return count;
  return count - (reference_count(*tensor._base().unsafeGetTensorImpl()) == 1 ? 1 : 0);
}

// The condition that the engine checks, with one more reference: that of the stack.
bool can_be_summed_into(const c10::IValue& value) {
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && tensor.has_storage() && tensor.is_non_overlapping_and_dense() &&
         reference_count(*tensor.unsafeGetTensorImpl()) == 2 &&
         storage_reference_count(tensor) == 1;
}

}  // namespace

RunningNodes::RunningNodes()
    : callback_(at::addGlobalCallback(at::RecordFunctionCallback(&begin_node, &end_node)
                                          .scopes({at::RecordScope::BACKWARD_FUNCTION}))) {}

RunningNodes::~RunningNodes() { at::removeCallback(callback_); }

std::optional<c10::OperatorHandle> as_sum_in_place(const OpInfo& info, torch::jit::Stack* stack) {
  if (info.name != "aten::add.Tensor" || !is_after_pytorch_node()) return std::nullopt;
  if (!can_be_summed_into((*stack)[stack->size() - 3])) return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow("aten::add_", "Tensor");
}

}  // namespace teraio::pytorch
