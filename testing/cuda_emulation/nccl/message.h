// What one rank of a communicator sends to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace teraio::testing::emulated_nccl {

using Bytes = std::vector<char>;

// What both ends of a transfer must agree on.
struct Label {
  int32_t call = 0;       // CallKind
  int32_t type = 0;       // ncclDataType_t
  int32_t reduction = 0;  // -1: none
  int32_t root = 0;       // -1: none
  uint64_t size_bytes = 0;

  bool operator==(const Label&) const = default;
};

struct Message {
  enum Kind : int32_t {
    kReady,   // the sender of this message waits for data with this label
    kData,    // these are they
    kOnHost,  // what ranks tell each other outside of streams
  };
  Kind kind = kReady;
  Label label;
  // Of kData and kOnHost: label.size_bytes bytes from `offset_bytes` on.
  std::shared_ptr<const Bytes> bytes;
  size_t offset_bytes = 0;

  const char* data() const { return bytes->data() + offset_bytes; }
};

}  // namespace teraio::testing::emulated_nccl
