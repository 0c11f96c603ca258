#include "engine/planned_copies.h"

namespace teraio::engine {
namespace {

// The op after which each tensor of the iteration is gone.
std::vector<trace::OpIndex> last_ops(const trace::Trace& trace) {
  std::vector<trace::OpIndex> last(trace.tensors.size(), 0);
  for (size_t op = 0; op < trace.ops.size(); ++op) {
    const auto see = [&](const std::vector<trace::TensorIndex>& tensors) {
      for (const trace::TensorIndex tensor : tensors)
        last[static_cast<size_t>(tensor)] = static_cast<trace::OpIndex>(op);
    };
    see(trace.ops[op].reads);
    see(trace.ops[op].writes);
    see(trace.ops[op].frees);
  }
  return last;
}

// What the last op frees, and does not use, may live on into the next iteration (see
// Recorder::finish).
std::vector<uint8_t> outliving(const trace::Trace& trace) {
  std::vector<uint8_t> outlives(trace.tensors.size());
  if (!trace.ops.empty()) {
    const trace::Op& last = trace.ops.back();
    for (const trace::TensorIndex tensor : last.frees) outlives[static_cast<size_t>(tensor)] = 1;
    for (const trace::TensorIndex tensor : last.reads) outlives[static_cast<size_t>(tensor)] = 0;
    for (const trace::TensorIndex tensor : last.writes) outlives[static_cast<size_t>(tensor)] = 0;
  }
  for (size_t i = 0; i < outlives.size(); ++i) outlives[i] |= trace.tensors[i].persistent;
  return outlives;
}

}  // namespace

PlannedCopies planned_copies(const Schedule& schedule, plan::Tier tier,
                             const std::function<bool(trace::TensorIndex)>& needs_room) {
  const trace::Trace& trace = schedule.profile().trace;
  const trace::OpIndex op_count = schedule.profile().op_count();
  const std::vector<trace::OpIndex> last = last_ops(trace);
  const std::vector<uint8_t> outlives = outliving(trace);
  PlannedCopies planned;
  planned.of_tensor.assign(trace.tensors.size(), -1);
  for (trace::OpIndex op = 0; op < op_count; ++op) {
    for (const plan::Migration& migration : schedule.issued_at(op)) {
      const auto i = static_cast<size_t>(migration.tensor);
      if (migration.action == plan::Action::kPrefetch || migration.tier != tier) continue;
      if (planned.of_tensor[i] >= 0 || !needs_room(migration.tensor)) continue;
      planned.of_tensor[i] = static_cast<int32_t>(planned.copies.size());
      const int64_t size_bytes = trace.tensors[i].size_bytes;
      // A plan from elsewhere may name what the iteration is done with: it lives on as well.
      const bool is_kept = outlives[i] != 0 || op > last[i];
      planned.copies.push_back(is_kept ? storage::PlannedCopy{size_bytes, 0, op_count}
                                       : storage::PlannedCopy{size_bytes, op, last[i] + 1});
    }
  }
  return planned;
}

}  // namespace teraio::engine
