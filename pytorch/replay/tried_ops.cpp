#include "replay/tried_ops.h"

#include <ATen/ops/equal.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <exception>
#include <optional>
#include <vector>

#include "iteration/signature.h"
#include "replay/op_replay.h"

namespace teraio::pytorch {
namespace {

std::optional<c10::ScalarType> bits_of(c10::ScalarType dtype) {
  switch (c10::elementSize(dtype)) {
    case 1:
      return c10::kByte;
    case 2:
      return c10::kShort;
    case 4:
      return c10::kInt;
    case 8:
      return c10::kLong;
    default:
      return std::nullopt;
  }
}

// Compares the bits of a tensor in memory with those of another one: numbers that are not numbers,
// and signs of zeros, count.
bool have_same_bits(TensorLayout layout, std::byte* memory, const at::Tensor& other) {
  if (!other.defined() || !is_plain(other) || !layout.is_like(layout_of(other))) return false;
  if (other.numel() == 0) return true;
  const std::optional<c10::ScalarType> bits = bits_of(layout.dtype);
  if (!bits) return false;
  layout.dtype = *bits;
  layout.is_number = false;
  auto* other_memory = static_cast<std::byte*>(const_cast<void*>(other.storage().data()));
  return at::equal(tensor_over(layout, memory), tensor_over(layout, other_memory));
}

bool gives(const CapturedOp& op, std::span<std::byte* const> results,
           std::span<const at::Tensor> again) {
  for (size_t i = 0; i < results.size(); ++i)
    if (op.made[i].is_result && !have_same_bits(op.made[i].layout, results[i], again[i]))
      return false;
  return true;
}

// The signature of an op on wrappers does not tell the sizes of what is inside.
void add_layouts(const CapturedCall& call, uint64_t& kind) {
  for_each_tensor(call, [&](const TensorArgument& argument) {
    kind = iteration::add_to_signature(kind, static_cast<uint64_t>(argument.layout.dtype));
    for (const int64_t size : argument.layout.sizes)
      kind = iteration::add_to_signature(kind, static_cast<uint64_t>(size));
    for (const int64_t stride : argument.layout.strides)
      kind = iteration::add_to_signature(kind, static_cast<uint64_t>(stride));
  });
}

}  // namespace

uint64_t kind_of(const CapturedOp& op, const iteration::OpSignature& signature) {
  uint64_t kind = iteration::combine_signatures(iteration::kEmptySignature, signature);
  for (const CapturedCall& call : op.calls) {
    kind = iteration::combine_signatures(kind, call.name_hash);
    if (op.has_wrappers) add_layouts(call, kind);
  }
  return kind;
}

TriedOps::Verdict TriedOps::verdict(uint64_t kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = verdicts_.find(kind);
  return found == verdicts_.end() ? Verdict::kNotTried : found->second;
}

TriedOps::Verdict TriedOps::try_once(uint64_t kind, const CapturedOp& op,
                                     std::span<std::byte* const> inputs,
                                     std::span<std::byte* const> results) {
  Verdict verdict = Verdict::kNotTried;
  try {
    const std::vector<at::Tensor> again = replay(op, inputs);
    const ReplayScope scope(op.calls.front().settings);
    verdict = gives(op, results, again) ? Verdict::kSame : Verdict::kDifferent;
  } catch (const python_error&) {  // Ctrl-C, for example
    throw;
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const std::exception&) {
    return verdict;
  }
  const std::lock_guard lock(mutex_);
  return verdicts_[kind] = verdict;
}

}  // namespace teraio::pytorch
