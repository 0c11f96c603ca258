#include "engine/schedule.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

template <typename Visit>
void for_each_touch(const trace::Op& op, Visit visit) {
  for (const trace::TensorIndex tensor : op.reads) visit(tensor);
  for (const trace::TensorIndex tensor : op.writes) visit(tensor);
}

}  // namespace

Schedule::Schedule(Profile profile, const plan::Plan& plan)
    : profile_(std::move(profile)), migrations_(plan.migrations) {
  index_uses();
  index_migrations();
}

void Schedule::index_migrations() {
  const auto op_count = static_cast<size_t>(profile_.op_count());
  std::stable_sort(migrations_.begin(), migrations_.end(),
                   [](const plan::Migration& a, const plan::Migration& b) {
                     return a.trigger_op < b.trigger_op;
                   });
  migrations_begin_.assign(op_count + 1, 0);
  for (const plan::Migration& migration : migrations_)
    ++migrations_begin_[std::min(static_cast<size_t>(migration.trigger_op), op_count - 1) + 1];
  for (size_t op = 0; op < op_count; ++op) migrations_begin_[op + 1] += migrations_begin_[op];
}

void Schedule::index_uses() {
  const trace::Trace& trace = profile_.trace;
  uses_begin_.assign(trace.tensors.size() + 1, 0);
  newborn_bytes_.assign(trace.ops.size(), 0);
  for (const trace::Op& op : trace.ops)
    for_each_touch(
        op, [&](trace::TensorIndex tensor) { ++uses_begin_[static_cast<size_t>(tensor) + 1]; });
  for (size_t i = 0; i < trace.tensors.size(); ++i) uses_begin_[i + 1] += uses_begin_[i];
  uses_.resize(uses_begin_.back());
  std::vector<size_t> next(uses_begin_.begin(), uses_begin_.end() - 1);
  for (size_t op = 0; op < trace.ops.size(); ++op) {
    newborn_bytes_[op] = trace.ops[op].workspace_bytes;
    for_each_touch(trace.ops[op], [&](trace::TensorIndex tensor) {
      const auto i = static_cast<size_t>(tensor);
      if (next[i] == uses_begin_[i] && !trace.tensors[i].persistent)
        newborn_bytes_[op] += trace.tensors[i].size_bytes;
      uses_[next[i]++] = static_cast<trace::OpIndex>(op);
    });
  }
}

std::span<const plan::Migration> Schedule::issued_at(trace::OpIndex op) const {
  const auto i = static_cast<size_t>(op);
  return std::span(migrations_)
      .subspan(migrations_begin_[i], migrations_begin_[i + 1] - migrations_begin_[i]);
}

int64_t Schedule::distance_to_use(trace::TensorIndex tensor, trace::OpIndex op) const {
  const auto i = static_cast<size_t>(tensor);
  const auto begin = uses_.begin() + static_cast<ptrdiff_t>(uses_begin_[i]);
  const auto end = uses_.begin() + static_cast<ptrdiff_t>(uses_begin_[i + 1]);
  const auto next = std::lower_bound(begin, end, op);
  if (next != end) return *next - op;
  if (begin == end || !profile_.trace.tensors[i].persistent) return profile_.op_count();
  return *begin + profile_.op_count() - op;
}

}  // namespace teraio::engine
