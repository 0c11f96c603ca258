#include "storage_walk.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "adoption.h"
#include "fake_storage.h"
#include "tensor_handle.h"

namespace teraio::pytorch {
namespace {

// Null when it has none, or none that an op may look at.
c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.is_python_dispatch()) return nullptr;
  return impl.unsafe_storage().unsafeGetStorageImpl();
}

// In place: what a const IValue gives is a copy, whose reference has to be counted.
const at::Tensor& tensor_in(const c10::IValue& value) {
  return const_cast<c10::IValue&>(value).toTensor();
}

}  // namespace

void StorageWalk::visit(const c10::IValue& value, bool is_write) {
  if (value.isTensor()) {
    visit_tensor(tensor_in(value), is_write);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) visit_tensor(tensor_in(element), is_write);
  } else if (value.isStorage()) {
    visit_storage(*value.toStorage().unsafeGetStorageImpl(), is_write);
  }
}

bool StorageWalk::is_opaque(const c10::TensorImpl& impl) const {
  return impl.is_python_dispatch() && !session_.is_dry;
}

void StorageWalk::visit_tensor(const at::Tensor& tensor, bool is_write) {
  if (!tensor.defined()) return;
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // Null for tensors without one (sparse ones): asking has_storage() first would be a virtual call.
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr || is_opaque(impl)) return;
  signature_ = add_to_signature(signature_, static_cast<uint64_t>(tensor.scalar_type()));
  if (!impl.has_symbolic_sizes_strides())
    for (const int64_t size : impl.sizes())
      signature_ = add_to_signature(signature_, static_cast<uint64_t>(size));
  LiveTensor* live = visit_storage(*storage, is_write);
  if (live != nullptr && impl.requires_grad() && tensor.is_leaf()) live->is_parameter = true;
}

LiveTensor* StorageWalk::visit_storage(c10::StorageImpl& storage, bool is_write) {
  TensorHandle* handle = handle_of(storage);
  if (handle == nullptr && side_ == OpSide::kArguments && !session_.is_dry)
    handle = adopt(session_, storage);
  if (handle == nullptr || handle->runtime != session_.runtime) return nullptr;
  remember_storage(*handle, storage);
  add_use(*handle->tensor, is_write);
  return handle->tensor;
}

void StorageWalk::add_use(LiveTensor& tensor, bool is_write) {
  const auto known = std::find_if(frame_.uses.begin(), frame_.uses.end(),
                                  [&](const Use& use) { return use.tensor == &tensor; });
  if (known == frame_.uses.end()) {
    frame_.uses.push_back({&tensor, is_write});
  } else if (side_ != OpSide::kResults) {
    known->is_write |= is_write;
  }
}

bool has_wrapper(const c10::IValue& value) {
  if (value.isTensor()) return is_wrapper(tensor_in(value));
  if (!value.isList()) return false;
  const auto elements = value.toListRef();
  return std::any_of(elements.begin(), elements.end(), [](const c10::IValue& element) {
    return element.isTensor() && is_wrapper(tensor_in(element));
  });
}

void find_unpinned(const ActiveSession& session, const c10::IValue& value,
                   std::vector<LiveTensor*>& found) {
  const auto look_at = [&](c10::StorageImpl* storage) {
    TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage);
    if (handle == nullptr || handle->runtime != session.runtime) return;
    // Autograd may save what was born in an op and no op returns: it has to be able to leave.
    remember_storage(*handle, *storage);
    LiveTensor* tensor = handle->tensor;
    if (tensor->pin_count > 0 || !tensor->is_seen_as_input) return;
    if (std::find(found.begin(), found.end(), tensor) == found.end()) found.push_back(tensor);
  };
  if (value.isTensor()) {
    look_at(storage_of(tensor_in(value)));
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) look_at(storage_of(tensor_in(element)));
  } else if (value.isStorage()) {
    look_at(value.toStorage().unsafeGetStorageImpl());
  }
}

}  // namespace teraio::pytorch
