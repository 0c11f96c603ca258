// PatternLibrary: the patterns that a program's iterations have had.
//
// It keeps as many as its memory holds, the most recently used ones.
//
// Threads: under the lock of its owner. Pointers to patterns are valid until trim().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "learn/pattern.h"

namespace teraio::learn {

class PatternLibrary {
 public:
  explicit PatternLibrary(int64_t bytes_max) : bytes_max_(bytes_max) {}

  Pattern& add(iteration::Profile profile, const Pattern::Key& key);
  bool has_plan() const;
  // Notes that the pattern is in use, which keeps it.
  void note_use(Pattern& pattern) { pattern.last_used = ++use_count_; }

  // The pattern of the iterations that have run exactly these ops (Pattern::Key::ops); null: there
  // is none. Of several, the one used last.
  Pattern* find(uint64_t ops) const;
  Pattern* with_id(int64_t id) const;  // null: there is none
  // A planned pattern which begins with these ops and goes on with an op of this structure; null:
  // there is none. Of several, the one used last.
  Pattern* find_continuation(uint64_t prefix_hash, trace::OpIndex op_count,
                             uint64_t structure) const;

  // Gives the pattern another profile, as if it were its first one. The pointer to it is invalid
  // after this call.
  Pattern& replace(const Pattern& pattern, iteration::Profile profile, const Pattern::Key& key);
  // Drops patterns until the others fit into the memory, but for `kept`.
  void trim(const Pattern* kept);

  const std::vector<std::unique_ptr<Pattern>>& patterns() const { return patterns_; }

 private:
  const int64_t bytes_max_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
  uint64_t use_count_ = 0;
  int64_t last_id_ = 0;
};

}  // namespace teraio::learn
