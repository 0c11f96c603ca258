// StorageSwap: how the program that owns a tensor learns that its bytes have moved.
#pragma once

#include <cstddef>

#include "engine/use.h"

namespace teraio::engine {

// Threads: the engine calls under its lock. No call may call into the engine, block, or take
// Python's lock.
class StorageSwap {
 public:
  virtual ~StorageSwap() = default;

  // Touching the bytes outside an op fails loudly from now on. `owner` is what Runtime::set_owner
  // was given. False: this tensor cannot be taken away (now), and nothing has changed.
  virtual bool detach(LiveTensor& tensor, void* owner) = 0;

  // The bytes are at `memory`.
  virtual void attach(LiveTensor& tensor, void* owner, std::byte* memory) = 0;

  // Of a tensor on the device, whose bytes a tier has too: while it is guarded, touching them
  // outside an op fails loudly, because a change would be lost. Attached tensors are not guarded.
  virtual void guard(LiveTensor& /*tensor*/, void* /*owner*/, bool /*is_guarded*/) {}

  // The program has dropped the tensor, which has no owner any more.
  virtual void forget(LiveTensor& /*tensor*/) {}
};

}  // namespace teraio::engine
