// The copies that a plan keeps on a tier, and when, so that the tier can reserve their room before
// the first iteration.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "iteration/schedule.h"
#include "storage/tier_store.h"

namespace teraio::engine {

struct PlannedCopies {
  std::vector<storage::PlannedCopy> copies;  // times in ops
  std::vector<int32_t> of_tensor;  // position in `copies` by tensor of the profile; -1: none
  // A persistent tensor is on another tier for a part of the iteration. Its copy counts as there
  // all the time, so that the copies may need more room than the tier has.
  bool has_part_time = false;
};

// The copies of the tensors that leave for `tier` and for which `needs_room` holds. A tensor that
// is born in the iteration has its copy from its first departure until its death. A persistent
// tensor has its copy all the time, so that no other copy uses its room.
PlannedCopies planned_copies(const iteration::Schedule& schedule, plan::Tier tier,
                             const std::function<bool(trace::TensorIndex)>& needs_room);

}  // namespace teraio::engine
