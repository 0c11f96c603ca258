#include "engine/planned_copies.h"

namespace teraio::engine {
namespace {

// A persistent tensor does. So may what the last op frees and does not use (see Recorder::finish).
bool outlives_iteration(const trace::TraceIndex& index, trace::TensorIndex tensor) {
  if (index.persistent[tensor]) return true;
  const auto last_op = static_cast<trace::OpIndex>(index.op_count()) - 1;
  return index.last_op[tensor] == last_op && index.ops_until_use(tensor, last_op) > 0;
}

bool leaves_for_a_tier(const plan::Migration& migration) {
  return plan::uses_tier(migration.action) && migration.action != plan::Action::kPrefetch;
}

}  // namespace

PlannedCopies planned_copies(const iteration::Schedule& schedule, plan::Tier tier,
                             const std::function<bool(trace::TensorIndex)>& needs_room) {
  const trace::TraceIndex& index = schedule.index();
  const trace::OpIndex op_count = schedule.profile().op_count();
  PlannedCopies planned;
  planned.of_tensor.assign(index.tensor_count(), -1);
  std::vector<bool> is_elsewhere(index.tensor_count());
  for (trace::OpIndex op = 0; op < op_count; ++op) {
    for (const plan::Migration& migration : schedule.issued_at(op)) {
      const auto i = static_cast<size_t>(migration.tensor);
      if (!leaves_for_a_tier(migration)) continue;
      if (migration.tier != tier) {
        is_elsewhere[i] = true;
        continue;
      }
      if (planned.of_tensor[i] >= 0 || !needs_room(migration.tensor)) continue;
      planned.of_tensor[i] = static_cast<int32_t>(planned.copies.size());
      const int64_t size_bytes = index.size_bytes[i];
      // A plan from elsewhere may name what the iteration is done with: it lives on as well.
      const bool is_kept = outlives_iteration(index, migration.tensor) || op > index.last_op[i];
      planned.copies.push_back(is_kept
                                   ? storage::PlannedCopy{size_bytes, 0, op_count}
                                   : storage::PlannedCopy{size_bytes, op, index.last_op[i] + 1});
    }
  }
  for (size_t i = 0; i < is_elsewhere.size(); ++i)
    planned.has_part_time |= is_elsewhere[i] && planned.of_tensor[i] >= 0 && index.persistent[i];
  return planned;
}

}  // namespace teraio::engine
