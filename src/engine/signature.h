// Signatures: 64-bit hashes that identify an op or a sequence of ops.
#pragma once

#include <bit>
#include <cstdint>

namespace teraio::engine {

inline constexpr uint64_t kEmptySignature = 0x9e3779b97f4a7c15;

// Adds `value` to `signature` with one step of FxHash (rustc's). It is cheap and serves the parts
// of one op, before combine_signatures().
constexpr uint64_t add_to_signature(uint64_t signature, uint64_t value) {
  return (std::rotl(signature, 5) ^ value) * 0x517cc1b727220a95;
}

// Mixes `value` into `signature` with the finaliser of MurmurHash3 (public domain). The order of
// calls matters.
constexpr uint64_t combine_signatures(uint64_t signature, uint64_t value) {
  uint64_t mixed = signature ^ (value + 0x9e3779b97f4a7c15 + (signature << 6) + (signature >> 2));
  mixed ^= mixed >> 33;
  mixed *= 0xff51afd7ed558ccd;
  mixed ^= mixed >> 33;
  return mixed;
}

}  // namespace teraio::engine
