#include "observe/unmarked_arguments.h"

#include <ATen/Functions.h>
#include <xxhash.h>

#include <algorithm>

#include "observe/observed_thread.h"
#include "storages/storage_walk.h"

namespace teraio::pytorch {
namespace {

// The tensors of an argument whose bytes can be read.
std::vector<at::Tensor> tensors_in(const c10::IValue& argument) {
  std::vector<at::Tensor> found;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() &&
        !tensor.unsafeGetTensorImpl()->is_python_dispatch())
      found.push_back(tensor);
  };
  if (argument.isTensor()) add(tensor_in(argument));
  if (argument.isList())
    for (const c10::IValue& element : argument.toListRef())
      if (element.isTensor()) add(tensor_in(element));
  return found;
}

uint64_t hash_of(const at::Tensor& tensor) {
  const UnobservedThread unobserved;  // the copies are no part of the op
  const at::NoGradGuard no_grad;
  const at::Tensor plain = tensor.detach().cpu().contiguous();
  return XXH3_64bits(plain.const_data_ptr(), plain.nbytes());
}

}  // namespace

UnmarkedArguments::UnmarkedArguments(const OpInfo& info, std::span<const c10::IValue> arguments)
    : info_(info) {
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (info.is_write[i] != 0) std::ranges::copy(tensors_in(arguments[i]), back_inserter(written));
  const auto is_apart = [&](const at::Tensor& tensor) {
    return std::none_of(written.begin(), written.end(),
                        [&](const at::Tensor& each) { return each.is_alias_of(tensor); });
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    for (const at::Tensor& tensor : tensors_in(arguments[i]))
      if (info.is_write[i] == 0 && is_apart(tensor))
        hashed_.push_back({tensor, i, hash_of(tensor)});
}

void UnmarkedArguments::check() const {
  for (const Hashed& each : hashed_)
    TORCH_CHECK(hash_of(each.tensor) == each.hash, "TERAIO: op ", info_.name,
                " has changed its argument number ", each.argument + 1,
                ", which its schema does not mark: outside of --verify such a change may be lost. "
                "Mark the argument in the schema, as in \"Tensor(a!) x\"");
}

}  // namespace teraio::pytorch
