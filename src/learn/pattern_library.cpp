#include "learn/pattern_library.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace teraio::learn {
namespace {

constexpr size_t kRecentIterations = 8;

template <typename Patterns, typename Fits>
Pattern* newest(const Patterns& patterns, Fits fits) {
  Pattern* best = nullptr;
  for (const auto& pattern : patterns)
    if (fits(*pattern) && (best == nullptr || best->last_used < pattern->last_used))
      best = pattern.get();
  return best;
}

}  // namespace

Pattern& PatternLibrary::add(iteration::Profile profile, const Pattern::Key& key) {
  patterns_.push_back(std::make_unique<Pattern>(std::move(profile), key));
  patterns_.back()->id = ++pattern_count_;
  note_use(*patterns_.back());
  return *patterns_.back();
}

bool PatternLibrary::has_plan() const {
  return std::ranges::any_of(patterns_, [](const auto& pattern) { return pattern->is_planned(); });
}

Pattern& PatternLibrary::replace(const Pattern& pattern, iteration::Profile profile,
                                 const Pattern::Key& key) {
  auto replacement = std::make_unique<Pattern>(std::move(profile), key);
  replacement->id = pattern.id;
  replacement->iteration_count = pattern.iteration_count;
  replacement->ops_run = pattern.ops_run;
  replacement->ops_planned = pattern.ops_planned;
  const auto place = std::ranges::find(patterns_, &pattern, &std::unique_ptr<Pattern>::get);
  *place = std::move(replacement);
  note_use(**place);
  return **place;
}

int64_t PatternLibrary::unrepeated_plans() const {
  return std::ranges::count_if(patterns_, [](const auto& pattern) {
    return pattern->is_in_use() && pattern->iteration_count == 1;
  });
}

bool PatternLibrary::has_planned_iteration() const {
  return std::ranges::any_of(
      patterns_, [](const auto& pattern) { return pattern->ops_planned >= pattern->op_count(); });
}

void PatternLibrary::note_iteration(Pattern* pattern) {
  recent_.push_back(pattern == nullptr ? 0 : pattern->id);
  if (recent_.size() > kRecentIterations) recent_.pop_front();
  if (pattern != nullptr) note_use(*pattern);
}

Pattern* PatternLibrary::last() const {
  return newest(patterns_, [this](const Pattern& pattern) { return pattern.id == last_id(); });
}

Pattern* PatternLibrary::most_frequent() const {
  const auto score = [this](const Pattern& pattern) {
    return std::pair(std::ranges::count(recent_, pattern.id), pattern.last_used);
  };
  Pattern* best = nullptr;
  for (const auto& pattern : patterns_)
    if (pattern->is_planned() && (best == nullptr || score(*best) < score(*pattern)))
      best = pattern.get();
  return best;
}

Pattern* PatternLibrary::find(uint64_t ops) const {
  return newest(patterns_, [ops](const Pattern& pattern) { return pattern.ops() == ops; });
}

Pattern* PatternLibrary::find_continuation(uint64_t prefix_hash, trace::OpIndex op_count,
                                           uint64_t structure) const {
  return newest(patterns_, [&](const Pattern& pattern) {
    return pattern.op_count() > op_count && pattern.is_planned() &&
           pattern.sequence()->at(op_count) == structure &&
           pattern.sequence()->prefix_hash(op_count) == prefix_hash;
  });
}

int64_t PatternLibrary::size_bytes() const {
  return std::transform_reduce(patterns_.begin(), patterns_.end(), int64_t{0}, std::plus<>(),
                               [](const auto& pattern) { return pattern->size_bytes(); });
}

void PatternLibrary::trim(const Pattern* kept) {
  const auto worth = [kept](const auto& pattern) {
    return std::tuple(pattern.get() == kept, pattern->is_in_use(), pattern->last_used);
  };
  while (patterns_.size() > 1 && is_full())
    patterns_.erase(std::ranges::min_element(patterns_, {}, worth));
}

}  // namespace teraio::learn
