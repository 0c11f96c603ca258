#include "escapes/aliases.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <unordered_set>

#include "escapes/living_objects.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

using StoragePointer = c10::intrusive_ptr<c10::StorageImpl>;

// A storage that a tensor of the program has, and its memory.
struct KnownStorage {
  StoragePointer storage;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool has_alias = false;
};

// Returns the storages with memory behind the tensors that the garbage collector knows.
std::vector<KnownStorage> known_storages() {
  std::vector<KnownStorage> known;
  std::unordered_set<c10::StorageImpl*> seen;
  const auto tensor_type = py::reinterpret_borrow<py::type>(THPVariableClass);
  for (const py::handle object : living_instances(tensor_type)) {
    const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
    if (!tensor.defined()) continue;
    c10::StorageImpl* storage =
        tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (storage == nullptr || !seen.insert(storage).second) continue;
    const auto begin = reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
    const size_t size_bytes = storage->sym_nbytes().maybe_as_int().value_or(0);
    if (begin != 0 && size_bytes > 0)
      known.push_back({StoragePointer::reclaim_copy(storage), begin, begin + size_bytes});
  }
  return known;
}

// Marks storages that share memory with another one. Addresses of devices do not overlap.
void mark_overlaps(std::vector<KnownStorage>& known) {
  std::sort(known.begin(), known.end(),
            [](const KnownStorage& a, const KnownStorage& b) { return a.begin < b.begin; });
  KnownStorage* furthest = nullptr;
  for (KnownStorage& each : known) {
    if (furthest != nullptr && each.begin < furthest->end)
      each.has_alias = furthest->has_alias = true;
    if (furthest == nullptr || each.end > furthest->end) furthest = &each;
  }
}

}  // namespace

std::vector<StoragePointer> find_aliases(const std::function<bool(c10::StorageImpl&)>& can_move) {
  std::vector<KnownStorage> known = known_storages();
  mark_overlaps(known);
  std::vector<StoragePointer> aliases;
  for (const KnownStorage& each : known)
    if (each.has_alias && can_move(*each.storage)) aliases.push_back(each.storage);
  return aliases;
}

}  // namespace teraio::pytorch
