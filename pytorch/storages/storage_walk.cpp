#include "storages/storage_walk.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "storages/adoption.h"
#include "storages/captured_storages.h"
#include "storages/data_pointer.h"
#include "storages/fake_storage.h"
#include "storages/inner_tensors.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

// Returns the tensor's storage, or null when it has none or is a wrapper, whose storage has no
// bytes.
c10::StorageImpl* storage_with_bytes(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return nullptr;
  return impl.is_python_dispatch() && !has_bytes(*storage) ? nullptr : storage;
}

// Autograd may save a tensor that an op creates and no op returns. To be offloaded, it needs a
// known storage, too.
void find_tensor(const ActiveSession& session, c10::StorageImpl& storage,
                 std::vector<engine::LiveTensor*>& found) {
  TensorHandle* handle = handle_of(storage);
  if (handle == nullptr || handle->runtime != session.runtime) return;
  remember_storage(*handle, storage);
  if (std::find(found.begin(), found.end(), handle->tensor) == found.end())
    found.push_back(handle->tensor);
}

}  // namespace

void StorageWalk::visit_others(const c10::IValue& value, bool is_write) {
  if (value.isStorage()) {
    visit_storage(*value.toStorage().unsafeGetStorageImpl(), is_write);
    return;
  }
  for (const c10::IValue& element : value.toListRef())
    if (element.isTensor()) visit_tensor(tensor_in(element), is_write);
}

bool StorageWalk::is_opaque(const c10::TensorImpl& impl, c10::StorageImpl& storage) const {
  return impl.is_python_dispatch() && !session_.is_dry && !has_bytes(storage);
}

// The inner tensors are not part of the signature: the number of elements of a sparse tensor
// differs from iteration to iteration.
void StorageWalk::visit_inner_tensors(const at::Tensor& tensor, bool is_write) {
  for (const at::Tensor& part : inner_tensors(tensor))
    if (c10::StorageImpl* storage = storage_with_bytes(part)) visit_storage(*storage, is_write);
}

void StorageWalk::add_to_signature(const c10::TensorImpl& impl) {
  uint64_t type = static_cast<uint64_t>(c10::typeMetaToScalarType(impl.dtype()));
  if (!impl.has_symbolic_sizes_strides() && !impl.is_nested()) {
    const c10::IntArrayRef sizes = impl.sizes();
    type |= static_cast<uint64_t>(sizes.size()) << 32;
    for (const int64_t size : sizes)
      sizes_ = iteration::add_to_signature(sizes_, static_cast<uint64_t>(size));
  }
  structure_ = iteration::add_to_signature(structure_, type);
}

void StorageWalk::visit_tensor(const at::Tensor& tensor, bool is_write) {
  if (!tensor.defined()) return;
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // The storage is null for tensors without one, such as sparse ones. has_storage() would tell the
  // same with a virtual call.
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr || is_opaque(impl, *storage)) return visit_inner_tensors(tensor, is_write);
  if (impl.is_quantized()) visit_inner_tensors(tensor, is_write);
  if (side_ == OpSide::kArguments) add_to_signature(impl);
  engine::Use* use = visit_storage(*storage, is_write);
  if (use != nullptr && impl.requires_grad() && tensor.is_leaf()) use->is_parameter = true;
}

engine::Use* StorageWalk::visit_storage(c10::StorageImpl& storage, bool is_write) {
  TensorHandle* handle = handle_of(storage);
  if (handle == nullptr) handle = adopt_if_possible(storage);
  if (side_ == OpSide::kCaptured) keep_captured(storage);
  if (handle == nullptr || handle->runtime != session_.runtime) return nullptr;
  remember_storage(*handle, storage);
  return &add_use(*handle->tensor, is_write);
}

// Looks at the size first: small tensors come with every op. Only a storage without memory, such as
// that of a fake tensor, may have a symbol for a size, which nbytes() refuses.
TensorHandle* StorageWalk::adopt_if_possible(c10::StorageImpl& storage) {
  if (side_ != OpSide::kArguments || session_.is_dry || !session_.may_adopt) return nullptr;
  if (address_of(storage._mutable_data_ptr_no_checks()) == nullptr) return nullptr;
  if (static_cast<int64_t>(storage.nbytes()) < session_.smallest_tensor_bytes) return nullptr;
  return adopt(session_, storage);
}

// Later sessions keep it, too.
void StorageWalk::keep_captured(c10::StorageImpl& storage) {
  note_captured(storage);
  keep_in_place(session_, storage);
}

engine::Use& StorageWalk::add_use(engine::LiveTensor& tensor, bool is_write) {
  const auto known = std::find_if(frame_.uses.begin(), frame_.uses.end(),
                                  [&](const engine::Use& use) { return use.tensor == &tensor; });
  if (known == frame_.uses.end()) return frame_.uses.emplace_back(engine::Use{&tensor, is_write});
  if (side_ != OpSide::kResults) known->is_write |= is_write;
  return *known;
}

bool has_wrapper(const c10::IValue& value) {
  if (value.isTensor()) return is_wrapper(tensor_in(value));
  if (!value.isList()) return false;
  const auto elements = value.toListRef();
  return std::any_of(elements.begin(), elements.end(), [](const c10::IValue& element) {
    return element.isTensor() && is_wrapper(tensor_in(element));
  });
}

void find_tensors(const ActiveSession& session, const at::Tensor& tensor,
                  std::vector<engine::LiveTensor*>& found) {
  if (c10::StorageImpl* storage = storage_with_bytes(tensor))
    return find_tensor(session, *storage, found);
  if (session.is_dry && is_wrapper(tensor)) return;
  for (const at::Tensor& part : inner_tensors(tensor))
    if (c10::StorageImpl* storage = storage_with_bytes(part)) find_tensor(session, *storage, found);
}

void find_tensors(const ActiveSession& session, const c10::IValue& value,
                  std::vector<engine::LiveTensor*>& found) {
  if (value.isTensor()) {
    find_tensors(session, tensor_in(value), found);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) find_tensors(session, tensor_in(element), found);
  } else if (value.isStorage()) {
    find_tensor(session, *value.toStorage().unsafeGetStorageImpl(), found);
  }
}

}  // namespace teraio::pytorch
