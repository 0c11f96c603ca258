#include "tried_ops.h"

#include <ATen/ops/equal.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <vector>

#include "op_replay.h"

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

// Compares bits: numbers that are not numbers, and signs of zeros, count.
bool have_same_bits(const at::Tensor& one, const at::Tensor& other) {
  if (!one.defined() || !other.defined()) return one.defined() == other.defined();
  TensorArgument layout = layout_of(one);
  if (!layout.is_like(layout_of(other)) || !is_plain(one) || !is_plain(other)) return false;
  if (one.numel() == 0) return true;
  const std::optional<c10::ScalarType> bits = bits_of(layout.dtype);
  if (!bits) return false;
  layout.dtype = *bits;
  layout.is_number = false;
  const auto bytes = [&](const at::Tensor& tensor) {
    return tensor_over(layout, static_cast<std::byte*>(const_cast<void*>(tensor.storage().data())));
  };
  return at::equal(bytes(one), bytes(other));
}

bool have_same_bits(std::span<const c10::IValue> ones, std::span<const c10::IValue> others) {
  const std::vector<at::Tensor> first = tensors_in(ones);
  const std::vector<at::Tensor> second = tensors_in(others);
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return have_same_bits(a, b); });
}

}  // namespace

TriedOps::Verdict TriedOps::verdict(uint64_t signature) const {
  const std::lock_guard lock(mutex_);
  const auto found = verdicts_.find(signature);
  return found == verdicts_.end() ? Verdict::kNotTried : found->second;
}

TriedOps::Verdict TriedOps::try_once(uint64_t signature, const CapturedOp& op,
                                     std::span<std::byte* const> inputs,
                                     std::span<const c10::IValue> results) {
  Verdict verdict = Verdict::kNotTried;
  try {
    const torch::jit::Stack again = replay(op, inputs);
    const ReplayScope scope(op.settings);
    verdict = have_same_bits(results, again) ? Verdict::kSame : Verdict::kDifferent;
  } catch (const python_error&) {  // Ctrl-C, for example
    throw;
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const std::exception&) {
    return verdict;
  }
  const std::lock_guard lock(mutex_);
  return verdicts_[signature] = verdict;
}

}  // namespace teraio::pytorch
