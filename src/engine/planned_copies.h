// What a plan keeps on a tier, and when: what the tier lays out before the first iteration.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/schedule.h"
#include "storage/tier_store.h"

namespace teraio::engine {

struct PlannedCopies {
  std::vector<storage::PlannedCopy> copies;  // times in ops
  std::vector<int32_t> of_tensor;  // position in `copies` by tensor of the profile; -1: none
};

// Of the tensors that leave for `tier` and for which `needs_room`. A tensor of the iteration has
// its copy from when it first leaves until it dies. One that outlives the iteration has its copy
// all the time, so that its bytes are nobody else's.
PlannedCopies planned_copies(const Schedule& schedule, plan::Tier tier,
                             const std::function<bool(trace::TensorIndex)>& needs_room);

}  // namespace teraio::engine
