// Support for the reducer of DistributedDataParallel. The reducer works on gradients and buckets
// from C++, in hooks that run when a gradient has been accumulated and at the end of backward.
//
// The reducer changes bytes through operators, which the observer sees. Between operators it
// compares the storages of gradients and buckets by address. PyTorch raises an error when code asks
// an offloaded storage for its address, so this module allows it while the reducer compares.
//
// A communication hook that PyTorch implements in C++ is the exception: it changes the buckets on a
// thread of the communication library, which is not observed. The buckets of such a reducer are
// pinned permanently.
#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "storages/storage_swap.h"

namespace c10d {
class Reducer;
}

namespace teraio::pytorch {

// Returns the storages that `reducer` compares by address: those of its buckets and of the
// gradients of its parameters.
//
// Threads: any. The function takes the reducer's lock. A thread that holds this lock may wait for
// the GIL, so the caller must not hold the GIL.
std::vector<WeakStorage> compared_by(const c10d::Reducer& reducer);

// Allows address comparisons of `storages` while the result lives. Storages that the session does
// not manage are ignored. Returns null when there is nothing to allow: no session is active, the
// session is a dry run, or this process is a forked child.
std::unique_ptr<AliasCheckScope> compare_owners(const std::vector<WeakStorage>& storages);

// Hooks on the gradient accumulators of one reducer's parameters, which run before and after the
// reducer's own. The reducer keeps the accumulators alive, and the hooks live as long as the
// accumulators do; destroying this object does not remove them. Without a session that offloads
// tensors they have no effect.
class ReducerHooks {
 public:
  // Prepares for the next backward pass whose gradients `reducer` reduces. Call it before each
  // backward pass, always with the same reducer. Has no effect without a session that offloads
  // tensors. Raises as throw_status() does when a bucket must be pinned and cannot be restored.
  //
  // Threads: one at a time, without the GIL (see compared_by()). The hooks run on autograd's
  // threads.
  void expect_backward(const c10d::Reducer& reducer);

  class Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace teraio::pytorch
