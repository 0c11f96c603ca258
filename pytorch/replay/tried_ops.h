// TriedOps: which ops give the same bytes when they run again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>

#include "iteration/signature.h"
#include "replay/captured_op.h"

namespace teraio::pytorch {

// Returns the same number for ops of equal signatures that have called the same kernels.
uint64_t kind_of(const CapturedOp& op, const iteration::OpSignature& signature);

// Each op is tried once for each kind, right after it has run. Threads: any, without the
// runtime's lock.
class TriedOps {
 public:
  enum class Verdict : uint8_t { kNotTried, kSame, kDifferent };

  Verdict verdict(uint64_t kind) const;
  // Replays the op, whose inputs are where they were, and compares all bits with those of its
  // `results`, one for each of CapturedOp::made. kNotTried: it could not be run, for want of
  // memory. Raises what Python code of the op raises.
  Verdict try_once(uint64_t kind, const CapturedOp& op, std::span<std::byte* const> inputs,
                   std::span<std::byte* const> results);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Verdict> verdicts_;
};

}  // namespace teraio::pytorch
