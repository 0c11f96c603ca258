#include "engine/profile.h"

#include <unordered_set>

namespace teraio {
namespace {

// Ops between a tensor's last use and its end that a program's own bookkeeping explains.
constexpr OpIndex kOrdinaryDelay = 16;

}  // namespace

std::vector<TensorIndex> Profile::lingering() const {
  std::vector<OpIndex> last_use(trace.tensors.size(), op_count());
  std::vector<TensorIndex> found;
  for (OpIndex op = 0; op < op_count(); ++op) {
    const Op& now = trace.ops[static_cast<size_t>(op)];
    for (const TensorIndex tensor : now.reads) last_use[static_cast<size_t>(tensor)] = op;
    for (const TensorIndex tensor : now.writes) last_use[static_cast<size_t>(tensor)] = op;
    for (const TensorIndex tensor : now.frees)
      if (op - last_use[static_cast<size_t>(tensor)] > kOrdinaryDelay) found.push_back(tensor);
  }
  return found;
}

Profile Profile::with_lingering_freed() const {
  Profile changed = *this;
  const std::vector<TensorIndex> tensors = lingering();
  const std::unordered_set<TensorIndex> freed(tensors.begin(), tensors.end());
  for (Op& op : changed.trace.ops)
    std::erase_if(op.frees, [&](TensorIndex tensor) { return freed.contains(tensor); });
  return changed;
}

}  // namespace teraio
