#include "iteration/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

namespace teraio::iteration {
namespace {

bool updates(const trace::Trace& trace, const trace::Op& op) {
  return std::ranges::any_of(op.writes, [&](trace::TensorIndex index) {
    const trace::TensorKind kind = trace.tensors[static_cast<size_t>(index)].kind;
    return kind == trace::TensorKind::kParameter || kind == trace::TensorKind::kOptimizerState;
  });
}

// Of the ops that change parameters: those of an optimizer have its name, as others of it do.
std::set<std::string_view> updating_modules(const Profile& profile) {
  std::set<std::string_view> modules;
  for (size_t op = 0; op < profile.origins.size(); ++op)
    if (!profile.origins[op].is_backward && updates(profile.trace, profile.trace.ops[op]))
      modules.insert(profile.origins[op].module);
  return modules;
}

// Of one row of forward passes, and what follows it.
struct Row {
  size_t first = 0;  // op, which each pass runs once
  bool is_forward = false;
  bool has_backward = false;
  bool has_update = false;
};

}  // namespace

// Ops that are of no part, such as those that make a batch, change nothing.
std::string parts_of(const Profile& profile) {
  Row row;
  int64_t forward_count = 0, backward_count = 0, update_count = 0;
  std::string start;
  const std::set<std::string_view> updating = updating_modules(profile);
  for (size_t op = 0; op < profile.origins.size(); ++op) {
    const OpOrigin& origin = profile.origins[op];
    const bool is_forward =
        !origin.is_backward && !origin.module.empty() && !updating.contains(origin.module);
    if (is_forward && !row.is_forward) row = {op, true};
    if (is_forward) {
      if (start.empty()) start = text_of(origin);
      forward_count +=
          profile.signatures[op].structure == profile.signatures[row.first].structure &&
          origin.module == profile.origins[row.first].module;
    } else if (origin.is_backward) {
      backward_count += !std::exchange(row.has_backward, true);
      row.is_forward = false;
    } else if (updates(profile.trace, profile.trace.ops[op])) {
      update_count += !std::exchange(row.has_update, true);
      row.is_forward = false;
    }
  }
  if (forward_count + backward_count + update_count == 0) return profile.trace.name;
  return fmt::format("{} forward{}{}, {} backward, {} update{}", forward_count,
                     start.empty() ? "" : " from ", start, backward_count, update_count,
                     update_count == 1 ? "" : "s");
}

}  // namespace teraio::iteration
