#include "aliases.h"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "living_objects.h"
#include "own_memory.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

using StoragePointer = c10::intrusive_ptr<c10::StorageImpl>;

// A storage that a tensor of the program has.
struct KnownStorage {
  c10::StorageImpl* storage;
  AddressRange range;
  bool can_move;
  bool has_alias = false;
};

c10::StorageImpl* storage_behind(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// The tensors of all Python objects that the garbage collector knows. They are kept alive, without
// a further reference to the TensorImpl.
class PythonTensors {
 public:
  PythonTensors() {
    const auto tensor_type = py::reinterpret_borrow<py::type>(THPVariableClass);
    for (const py::handle object : living_instances(tensor_type)) {
      const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
      if (!tensor.defined() || storage_behind(tensor) == nullptr) continue;
      objects_.push_back(py::reinterpret_borrow<py::object>(object));
      tensors_.push_back(&tensor);
    }
  }

  const std::vector<const at::Tensor*>& get() const { return tensors_; }

 private:
  std::vector<py::object> objects_;
  std::vector<const at::Tensor*> tensors_;
};

std::vector<KnownStorage> storages_behind(const PythonTensors& tensors,
                                          const std::function<bool(c10::StorageImpl&)>& can_move) {
  std::vector<KnownStorage> known;
  std::unordered_set<c10::StorageImpl*> seen;
  for (const at::Tensor* tensor : tensors.get()) {
    c10::StorageImpl* storage = storage_behind(*tensor);
    if (!seen.insert(storage).second) continue;
    const auto begin = reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
    if (begin == 0) continue;
    const size_t size_bytes = storage->sym_nbytes().maybe_as_int().value_or(0);
    if (size_bytes > 0) known.push_back({storage, {begin, begin + size_bytes}, can_move(*storage)});
  }
  return known;
}

// Marks storages that share memory with another one. Addresses of devices do not overlap.
void mark_overlaps(std::vector<KnownStorage>& known) {
  std::sort(known.begin(), known.end(), [](const KnownStorage& a, const KnownStorage& b) {
    return a.range.begin < b.range.begin;
  });
  KnownStorage* furthest = nullptr;
  for (KnownStorage& each : known) {
    if (furthest != nullptr && each.range.begin < furthest->range.end)
      each.has_alias = furthest->has_alias = true;
    if (furthest == nullptr || each.range.end > furthest->range.end) furthest = &each;
  }
}

using ReferenceCounts = std::unordered_map<const c10::TensorImpl*, size_t>;

// Returns the references that gradients and views hold, which are not exports.
ReferenceCounts references_of_autograd(const PythonTensors& tensors) {
  ReferenceCounts counts;
  for (const at::Tensor* tensor : tensors.get()) {
    const at::Tensor& gradient = tensor->unsafeGetTensorImpl()->grad();
    if (gradient.defined()) ++counts[gradient.unsafeGetTensorImpl()];
    if (tensor->is_view()) ++counts[tensor->_base().unsafeGetTensorImpl()];
  }
  return counts;
}

// The tensors that may be exported, and their storages. Each has one reference from Python.
std::unordered_map<const c10::TensorImpl*, c10::StorageImpl*> export_candidates(
    const PythonTensors& tensors, const std::vector<KnownStorage>& known) {
  std::unordered_set<c10::StorageImpl*> movable;
  for (const KnownStorage& each : known)
    if (each.can_move && !each.has_alias) movable.insert(each.storage);
  const ReferenceCounts explained = references_of_autograd(tensors);
  std::unordered_map<const c10::TensorImpl*, c10::StorageImpl*> candidates;
  for (const at::Tensor* tensor : tensors.get()) {
    const c10::TensorImpl* impl = tensor->unsafeGetTensorImpl();
    if (!movable.contains(storage_behind(*tensor))) continue;
    const auto found = explained.find(impl);
    const size_t explained_count = found == explained.end() ? 0 : found->second;
    if (tensor->use_count() > 1 + explained_count)
      candidates.emplace(impl, storage_behind(*tensor));
  }
  return candidates;
}

// How an export of one version of DLPack lies in memory: the object that owns the tensor begins
// with a pointer to it, and contains the address of the deleter after its own address.
struct ExportForm {
  uintptr_t deleter = 0;
  uintptr_t deleter_offset = 0;
};

template <typename Exported>
std::optional<ExportForm> form_of(const at::Tensor& tensor, Exported* exported) {
  const auto owner = reinterpret_cast<uintptr_t>(exported->manager_ctx);
  const auto place = reinterpret_cast<uintptr_t>(&exported->deleter);
  const ExportForm form = {reinterpret_cast<uintptr_t>(exported->deleter), place - owner};
  const bool is_known =
      owner < place && form.deleter_offset < 4096 &&
      word_at(owner) == reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()) &&
      word_at(place - sizeof(uintptr_t)) == owner;
  exported->deleter(exported);
  return is_known ? std::optional(form) : std::nullopt;
}

// Returns nothing when this version of PyTorch has exports of another form.
std::optional<std::array<ExportForm, 2>> export_forms() {
  const at::Tensor tensor = at::detail::empty_cpu({1}, at::kByte);
  const auto plain = form_of(tensor, at::toDLPack(tensor));
  const auto versioned = form_of(tensor, at::toDLPackVersioned(tensor));
  if (!plain || !versioned) return std::nullopt;
  return std::array{*plain, *versioned};
}

// Adds the storages of the candidates that an export refers to. Returns false when it cannot tell.
bool add_exported(const std::unordered_map<const c10::TensorImpl*, c10::StorageImpl*>& candidates,
                  const std::vector<KnownStorage>& known,
                  std::unordered_set<c10::StorageImpl*>& aliased) {
  const auto forms = export_forms();
  if (!forms) return false;
  std::vector<AddressRange> contents;
  for (const KnownStorage& each : known)
    if (each.storage->device_type() == c10::DeviceType::CPU) contents.push_back(each.range);
  const std::array<uintptr_t, 2> deleters = {(*forms)[0].deleter, (*forms)[1].deleter};
  return find_words(deleters, std::move(contents), [&](uintptr_t place) {
    const uintptr_t owner = word_at(place - sizeof(uintptr_t));
    const bool is_export = std::any_of(forms->begin(), forms->end(), [&](const ExportForm& form) {
      return place - owner == form.deleter_offset;
    });
    if (!is_export) return;
    const auto found = candidates.find(reinterpret_cast<const c10::TensorImpl*>(word_at(owner)));
    if (found != candidates.end()) aliased.insert(found->second);
  });
}

}  // namespace

Aliases find_aliases(const std::function<bool(c10::StorageImpl&)>& can_move) {
  const PythonTensors tensors;
  std::vector<KnownStorage> known = storages_behind(tensors, can_move);
  mark_overlaps(known);
  std::unordered_set<c10::StorageImpl*> aliased;
  for (const KnownStorage& each : known)
    if (each.can_move && each.has_alias) aliased.insert(each.storage);
  Aliases result;
  const auto candidates = export_candidates(tensors, known);
  if (!candidates.empty()) result.is_complete = add_exported(candidates, known, aliased);
  for (c10::StorageImpl* storage : aliased)
    result.storages.push_back(StoragePointer::reclaim_copy(storage));
  return result;
}

}  // namespace teraio::pytorch
