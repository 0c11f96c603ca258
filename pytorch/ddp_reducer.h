// The reducer of DistributedDataParallel, which works on gradients and buckets from C++: in hooks
// that run when a gradient has been accumulated, and at the end of backward.
//
// All that it does with bytes are operators. Between them it compares whose bytes a gradient and a
// bucket have, which has to be possible while they are away.
#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "storage_swap.h"

namespace c10d {
class Reducer;
}

namespace teraio::pytorch {

// Whose bytes are compared where `reducer` goes through all gradients: its buckets', and theirs.
// Takes the reducer's lock, under which it may want Python's: not to be called with that.
std::vector<WeakStorage> compared_by(const c10d::Reducer& reducer);

// Nothing without a session.
std::unique_ptr<AliasCheckScope> compare_owners(const std::vector<WeakStorage>& storages);

// Hooks around those of one reducer, on its parameters. They stay as long as those.
//
// Threads: one at a time, without Python's lock as above.
class ReducerHooks {
 public:
  // Before every backward that is reduced. The same reducer each time.
  void expect_backward(const c10d::Reducer& reducer);

  class Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace teraio::pytorch
