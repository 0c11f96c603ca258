#include "observe/list_op_slices.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace teraio::pytorch {
namespace {

constexpr int64_t kSlicesPerBudget = 12;

using Stack = torch::jit::Stack;

size_t list_length(const c10::IValue& value) {
  return value.isList() ? value.toListRef().size() : 0;
}

// Returns the common length of the op's tensor lists. Empty lists stand for absent arguments.
// Returns nothing when the lengths differ, or when a tensor argument has dimensions: it may hold
// one scalar per element of the lists.
std::optional<size_t> common_length(const Stack& arguments) {
  size_t length = 0;
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList() || list_length(value) == 0) continue;
    if (length != 0 && list_length(value) != length) return std::nullopt;
    length = list_length(value);
  }
  for (const c10::IValue& value : arguments)
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 0)
      return std::nullopt;
  return length;
}

// Returns, for each n, the sum of the bytes of the n-th elements of all lists.
std::vector<int64_t> element_bytes(const Stack& arguments, size_t length) {
  std::vector<int64_t> bytes(length, 0);
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList() || list_length(value) == 0) continue;
    const auto elements = value.toListRef();
    for (size_t i = 0; i < length; ++i)
      bytes[i] += static_cast<int64_t>(elements[i].toTensor().nbytes());
  }
  return bytes;
}

// Returns the ends of consecutive slices, each of at most slice_bytes_max or one element.
std::vector<size_t> slice_ends(const std::vector<int64_t>& bytes, int64_t slice_bytes_max) {
  std::vector<size_t> ends;
  int64_t slice_bytes = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (slice_bytes > 0 && slice_bytes + bytes[i] > slice_bytes_max) {
      ends.push_back(i);
      slice_bytes = 0;
    }
    slice_bytes += bytes[i];
  }
  ends.push_back(bytes.size());
  return ends;
}

c10::IValue slice_of(const c10::IValue& value, size_t begin, size_t end, size_t length) {
  if (list_length(value) != length) return value;
  const auto elements = value.toListRef();
  c10::impl::GenericList slice(value.toList().elementType());
  for (size_t i = begin; i < end; ++i) slice.push_back(elements[i]);
  return slice;
}

// Appends the lists that a slice has returned to those of the slices before it.
void join_results(Stack& joined, const Stack& slice) {
  if (joined.empty()) {
    joined = slice;
    return;
  }
  for (size_t i = 0; i < slice.size(); ++i)
    for (const c10::IValue& element : slice[i].toListRef()) joined[i].toList().push_back(element);
}

}  // namespace

int64_t list_op_slice_bytes(int64_t device_budget_bytes) {
  return device_budget_bytes / kSlicesPerBudget;
}

bool run_in_slices(const OpInfo& info, int64_t slice_bytes_max, Stack* stack,
                   const std::function<void(Stack*)>& run) {
  const Stack arguments(stack->end() - static_cast<ptrdiff_t>(info.argument_count), stack->end());
  const std::optional<size_t> length = common_length(arguments);
  if (!length || *length < 2) return false;
  const std::vector<size_t> ends = slice_ends(element_bytes(arguments, *length), slice_bytes_max);
  if (ends.size() < 2) return false;
  stack->erase(stack->end() - static_cast<ptrdiff_t>(info.argument_count), stack->end());
  Stack joined;
  size_t begin = 0;
  for (const size_t end : ends) {
    Stack slice;
    for (const c10::IValue& value : arguments)
      slice.push_back(slice_of(value, begin, end, *length));
    run(&slice);
    join_results(joined, slice);
    begin = end;
  }
  stack->insert(stack->end(), joined.begin(), joined.end());
  return true;
}

}  // namespace teraio::pytorch
