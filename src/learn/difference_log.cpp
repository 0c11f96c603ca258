#include "learn/difference_log.h"

#include <algorithm>
#include <utility>

namespace teraio::learn {
namespace {

std::string op_name(const trace::Trace& trace, trace::OpIndex position) {
  const auto index = static_cast<size_t>(position);
  return index < trace.ops.size() ? trace.ops[index].name : std::string();
}

std::string last_parameter(const trace::Trace& trace, trace::OpIndex position) {
  for (size_t i = std::min(static_cast<size_t>(position) + 1, trace.ops.size()); i-- > 0;)
    for (const auto* tensors : {&trace.ops[i].reads, &trace.ops[i].writes})
      for (const trace::TensorIndex index : *tensors) {
        const trace::Tensor& tensor = trace.tensors[static_cast<size_t>(index)];
        if (tensor.kind == trace::TensorKind::kParameter && !tensor.name.empty())
          return tensor.name;
      }
  return {};
}

}  // namespace

Difference* DifferenceLog::find(const Difference& difference) {
  const auto found = std::ranges::find_if(differences_, [&](const Difference& known) {
    return known.kind == difference.kind && known.pattern == difference.pattern &&
           known.position == difference.position && known.structure == difference.structure;
  });
  return found == differences_.end() ? nullptr : &*found;
}

size_t DifferenceLog::note(const Difference& difference, const iteration::Profile& profile) {
  if (Difference* known = find(difference)) {
    ++known->iteration_count;
    return 0;
  }
  if (differences_.size() == kEntriesMax) return 0;
  Difference added = difference;
  added.expected_op = op_name(profile.trace, difference.position);
  added.parameter = last_parameter(profile.trace, difference.position);
  added.iteration_count = 1;
  differences_.push_back(std::move(added));
  return differences_.size();
}

size_t DifferenceLog::note_sizes(const Difference& difference, const iteration::Profile& profile,
                                 int64_t expected_bytes, int64_t found_bytes) {
  const size_t entry = note(difference, profile);
  Difference* known = find(difference);
  if (known == nullptr) return 0;
  if (entry != 0) {
    known->expected_bytes = expected_bytes;
    known->smallest_bytes = found_bytes;
  }
  known->smallest_bytes = std::min(known->smallest_bytes, found_bytes);
  known->largest_bytes = std::max(known->largest_bytes, found_bytes);
  return entry;
}

void DifferenceLog::set_place(size_t entry, std::string op, std::string location) {
  differences_[entry - 1].op = std::move(op);
  differences_[entry - 1].location = std::move(location);
}

}  // namespace teraio::learn
