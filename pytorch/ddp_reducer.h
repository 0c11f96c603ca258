// Support for the reducer of DistributedDataParallel. The reducer works on gradients and buckets
// from C++, in hooks that run when a gradient has been accumulated and at the end of backward.
//
// The reducer changes bytes only through operators. Between operators it compares the storages of
// gradients and buckets by address, which must also work while they are offloaded.
#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "storage_swap.h"

namespace c10d {
class Reducer;
}

namespace teraio::pytorch {

// Returns the storages that `reducer` compares by address: its buckets and the gradients that it
// compares with them. Takes the reducer's lock; a thread that holds that lock may wait for the GIL,
// so the caller must not hold the GIL.
std::vector<WeakStorage> compared_by(const c10d::Reducer& reducer);

// Allows address comparisons of `storages` while the result lives. Returns null when no session is
// active.
std::unique_ptr<AliasCheckScope> compare_owners(const std::vector<WeakStorage>& storages);

// Hooks on the parameters of one reducer that run before and after the reducer's own. They stay
// registered as long as the parameters live.
//
// Threads: one at a time, without the GIL (see compared_by).
class ReducerHooks {
 public:
  // Prepares for the next backward that `reducer` reduces. Call it before each one, always with the
  // same reducer.
  void expect_backward(const c10d::Reducer& reducer);

  class Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace teraio::pytorch
