// Signatures: 64-bit hashes that identify an op or a sequence of ops.
//
// The signature of an op has two parts, so that a program is known again when only the sizes of its
// tensors change: the lengths of sequences, for example, or the number of tokens that an expert
// gets.
#pragma once

#include <bit>
#include <cstdint>

namespace teraio::iteration {

inline constexpr uint64_t kEmptySignature = 0x9e3779b97f4a7c15;

// Adds `value` to `signature` with one step of FxHash (rustc's). It is cheap and serves the ops
// that run one after the other.
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

// What an op is and was called with. A number alone is an op that has no sizes.
struct OpSignature {
  constexpr OpSignature(uint64_t structure = 0, uint64_t sizes = 0)  // NOLINT(*-explicit-*)
      : structure(structure), sizes(sizes) {}

  // The op, and the types and ranks of its tensors. In a Profile also which persistent tensors its
  // arguments are, so that equal layers differ.
  uint64_t structure;
  uint64_t sizes;  // the sizes of its tensors

  bool operator==(const OpSignature&) const = default;
};

constexpr uint64_t combine_signatures(uint64_t signature, const OpSignature& op) {
  return combine_signatures(combine_signatures(signature, op.structure), op.sizes);
}

}  // namespace teraio::iteration
