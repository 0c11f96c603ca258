#include "testing/cuda_emulation/nccl/operation.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "testing/cuda_emulation/nccl/reduction.h"

namespace teraio::testing::emulated_nccl {
namespace {

using emulated_cuda::shadow_of;

char* bytes_at(const void* address) { return static_cast<char*>(shadow_of(address)); }

Bytes scalar_bytes(const Call& call) {
  if (call.scalar.on_device == nullptr) return call.scalar.on_host;
  const char* begin = bytes_at(call.scalar.on_device);
  return Bytes(begin, begin + size_of(call.type));
}

// The bytes as ranks add them.
std::shared_ptr<Bytes> scaled(const Call& call, const std::shared_ptr<Bytes>& input) {
  if (call.scalar.is_none() || !is_reduction(call.kind)) return input;
  auto copy = std::make_shared<Bytes>(*input);
  scale(*copy, call.type, scalar_bytes(call));
  return copy;
}

struct Range {
  const char* begin;
  const char* end;
};

// Fills a range of the device with 0xFF, without what lies in `kept`.
void spoil(Range range, const std::vector<Range>& kept) {
  while (range.begin < range.end) {
    const char* end = range.end;
    const char* next = nullptr;  // the end of a kept range that begins here, or before
    for (const Range& each : kept) {
      if (each.begin <= range.begin && range.begin < each.end) next = std::max(next, each.end);
      if (each.begin > range.begin) end = std::min(end, each.begin);
    }
    if (next == nullptr) std::memset(bytes_at(range.begin), 0xFF, end - range.begin);
    range.begin = next == nullptr ? end : next;
  }
}

}  // namespace

Operation::Operation(const std::vector<Call>& calls, int rank, int count) {
  for (const Call& call : calls) {
    parts_.push_back({call, exchange_of(call, rank, count), nullptr});
    for (const Piece& piece : parts_.back().exchange.sends)
      sends.push_back({piece.peer, {Message::kData, piece.label, nullptr, 0}});
    for (const Piece& piece : parts_.back().exchange.receives)
      receives.push_back({piece.peer, piece.label, {}});
  }
}

void Operation::spoil_outputs() const {
  std::vector<Range> inputs;
  for (const Part& part : parts_) {
    const char* begin = static_cast<const char*>(part.call.input);
    inputs.push_back({begin, begin + part.exchange.input_bytes});
  }
  for (const Part& part : parts_) {
    const char* begin = static_cast<const char*>(part.call.output);
    spoil({begin, begin + part.exchange.output_bytes}, inputs);
  }
}

void Operation::read_inputs() {
  size_t next = 0;
  for (Part& part : parts_) {
    const char* begin = bytes_at(part.call.input);
    part.input = std::make_shared<Bytes>(begin, begin + part.exchange.input_bytes);
    const auto sent = scaled(part.call, part.input);
    for (const Piece& piece : part.exchange.sends) {
      sends[next].message.bytes = sent;
      sends[next++].message.offset_bytes = piece.offset_bytes;
    }
  }
}

void Operation::write_outputs() {
  for (const Part& part : parts_) {
    if (part.input->empty()) continue;
    if (std::memcmp(bytes_at(part.call.input), part.input->data(), part.input->size()) != 0)
      throw std::runtime_error(std::string("the input of ") + part.call.name +
                               " was written before the call had ended");
  }
  size_t next = 0;
  for (const Part& part : parts_) write_output(part, next);
}

void Operation::write_output(const Part& part, size_t& next) const {
  const std::vector<Piece>& pieces = part.exchange.receives;
  if (pieces.empty()) return;
  char* output = bytes_at(part.call.output);
  std::vector<const char*> inputs;
  for (const Piece& piece : pieces) {
    const Message& message = receives[next++].message;
    inputs.push_back(message.data());
    if (!is_reduction(part.call.kind))
      std::memcpy(output + piece.offset_bytes, message.data(), piece.label.size_bytes);
  }
  if (is_reduction(part.call.kind))
    reduce(inputs, part.call.type, part.call.op, part.call.count, output);
}

}  // namespace teraio::testing::emulated_nccl
