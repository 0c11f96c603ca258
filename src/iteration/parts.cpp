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

// Ops that are of no part, such as those that make a batch, change nothing.
class Parts {
 public:
  explicit Parts(const Profile& profile) : profile_(profile), updating_(updating_modules(profile)) {
    for (size_t op = 0; op < profile.origins.size(); ++op) add(op);
  }

  bool are_none() const {
    return forward_count_ + without_gradients_count_ + backward_count_ + update_count_ == 0;
  }
  std::string text() const {
    std::string text = fmt::format("{} forward", forward_count_);
    if (!start_.empty()) text += " from " + start_;
    if (without_gradients_count_ > 0)
      text += fmt::format(", {} without gradients", without_gradients_count_);
    return fmt::format("{}, {} backward, {} update{}", text, backward_count_, update_count_,
                       update_count_ == 1 ? "" : "s");
  }

 private:
  // Of forward passes, and what follows them.
  struct Row {
    size_t first = 0;  // op, which each pass runs once
    bool is_forward = false;
    bool is_without_gradients = false;  // its last pass, as its first op
    bool has_backward = false;
    bool has_update = false;
  };

  void add(size_t op) {
    const OpOrigin& origin = profile_.origins[op];
    if (origin.is_backward) {
      backward_count_ += !std::exchange(row_.has_backward, true);
    } else if (!origin.module.empty() && !updating_.contains(origin.module)) {
      return add_forward(op);
    } else if (updates(profile_.trace, profile_.trace.ops[op])) {
      update_count_ += !std::exchange(row_.has_update, true);
    } else {
      return;
    }
    row_.is_forward = false;
  }

  void add_forward(size_t op) {
    const OpOrigin& origin = profile_.origins[op];
    const bool is_other = row_.is_without_gradients && !origin.is_without_gradients;
    if (!row_.is_forward || is_other) row_ = {op, true};
    if (profile_.signatures[op].structure != profile_.signatures[row_.first].structure ||
        origin.module != profile_.origins[row_.first].module)
      return;
    row_.is_without_gradients = origin.is_without_gradients;
    if (origin.is_without_gradients) {
      ++without_gradients_count_;
    } else if (forward_count_++ == 0) {
      start_ = text_of(origin);
    }
  }

  const Profile& profile_;
  const std::set<std::string_view> updating_;
  Row row_;
  std::string start_;  // of the first pass forward
  int64_t forward_count_ = 0;
  int64_t without_gradients_count_ = 0;
  int64_t backward_count_ = 0;
  int64_t update_count_ = 0;
};

}  // namespace

std::string parts_of(const Profile& profile) {
  const Parts parts(profile);
  return parts.are_none() ? profile.trace.name : parts.text();
}

}  // namespace teraio::iteration
