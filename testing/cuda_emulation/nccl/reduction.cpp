#include "testing/cuda_emulation/nccl/reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace teraio::testing::emulated_nccl {
namespace {

// An element in the type in which it is computed.
template <typename Element>
Element load(Element value) {
  return value;
}
float load(__half value) { return __half2float(value); }
float load(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename Element, typename Value>
Element round_to(Value value) {
  if constexpr (std::is_same_v<Element, __half>)
    return __float2half_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(value));
  else
    return static_cast<Element>(value);
}

// Calls visit(Element{}) with the C++ type of the elements.
template <typename Visit>
void with_type(ncclDataType_t type, Visit visit) {
  switch (type) {
    case ncclInt8:
      return visit(int8_t{});
    case ncclUint8:
      return visit(uint8_t{});
    case ncclInt32:
      return visit(int32_t{});
    case ncclUint32:
      return visit(uint32_t{});
    case ncclInt64:
      return visit(int64_t{});
    case ncclUint64:
      return visit(uint64_t{});
    case ncclFloat16:
      return visit(__half{});
    case ncclFloat32:
      return visit(float{});
    case ncclFloat64:
      return visit(double{});
    case ncclBfloat16:
      return visit(__nv_bfloat16{});
    default:
      return;
  }
}

// Whole numbers wrap around.
template <typename Value>
auto wrapping(Value value) {
  if constexpr (std::is_integral_v<Value>)
    return static_cast<uint64_t>(value);
  else
    return value;
}

template <typename Value>
Value combine(Value a, Value b, ncclRedOp_t op) {
  if (op == ncclMax) return std::max(a, b);
  if (op == ncclMin) return std::min(a, b);
  if (op == ncclProd) return static_cast<Value>(wrapping(a) * wrapping(b));
  return static_cast<Value>(wrapping(a) + wrapping(b));
}

template <typename Element>
void reduce_as(const std::vector<const char*>& inputs, ncclRedOp_t op, size_t count,
               Element* result) {
  for (size_t i = 0; i < count; ++i) {
    const auto element = [&](const char* input) {
      return load(reinterpret_cast<const Element*>(input)[i]);
    };
    auto sum = element(inputs.front());
    for (size_t rank = 1; rank < inputs.size(); ++rank)
      sum = combine(sum, element(inputs[rank]), op);
    if constexpr (std::is_integral_v<Element>) {
      if (op == ncclAvg) sum = static_cast<Element>(sum / static_cast<Element>(inputs.size()));
    }
    result[i] = round_to<Element>(sum);
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  if (type == ncclFloat8e4m3 || type == ncclFloat8e5m2) return 1;
  size_t size = 0;
  with_type(type, [&](auto element) { size = sizeof(element); });
  return size;
}

bool can_be_reduced(ncclDataType_t type) {
  return type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

bool is_divided_after(ncclDataType_t type) { return type <= ncclUint64; }

Bytes scalar_of(ncclDataType_t type, double value) {
  Bytes scalar(size_of(type));
  with_type(type, [&](auto element) {
    element = round_to<decltype(element)>(value);
    std::memcpy(scalar.data(), &element, sizeof(element));
  });
  return scalar;
}

void scale(Bytes& elements, ncclDataType_t type, const Bytes& scalar) {
  with_type(type, [&](auto factor) {
    using Element = decltype(factor);
    std::memcpy(&factor, scalar.data(), sizeof(factor));
    auto* begin = reinterpret_cast<Element*>(elements.data());
    for (size_t i = 0; i < elements.size() / sizeof(Element); ++i) {
      const auto value = load(begin[i]);
      begin[i] = round_to<Element>(combine(value, load(factor), ncclProd));
    }
  });
}

void reduce(const std::vector<const char*>& inputs, ncclDataType_t type, ncclRedOp_t op,
            size_t count, char* result) {
  with_type(type, [&](auto element) {
    reduce_as(inputs, op, count, reinterpret_cast<decltype(element)*>(result));
  });
}

}  // namespace teraio::testing::emulated_nccl
