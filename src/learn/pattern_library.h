// PatternLibrary: the patterns that a program's iterations have had.
//
// It keeps as many as its memory holds: rather those with plans, and of these the most recently
// used ones.
//
// Threads: under the lock of its owner. Pointers to patterns are valid until trim().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "learn/pattern.h"

namespace teraio::learn {

class PatternLibrary {
 public:
  explicit PatternLibrary(int64_t bytes_max) : bytes_max_(bytes_max) {}

  Pattern& add(iteration::Profile profile, const Pattern::Key& key);
  bool has_plan() const;
  int64_t unrepeated_plans() const;  // patterns with a plan that one iteration has had
  bool has_planned_iteration() const;
  // An iteration of the pattern has ended, which keeps it. Null: of none that is known.
  void note_iteration(Pattern* pattern);
  int64_t last_id() const { return recent_.empty() ? 0 : recent_.back(); }  // 0: none is known

  // The pattern of the iterations that have run exactly these ops (Pattern::Key::ops); null: there
  // is none. Of several, the one used last.
  Pattern* find(uint64_t ops) const;
  Pattern* last() const;  // of the last iteration; null: none is known
  // The planned pattern of most of the last iterations; null: there is none. Of several, the one
  // used last.
  Pattern* most_frequent() const;
  // A planned pattern which begins with these ops and goes on with an op of this structure; null:
  // there is none. Of several, the one used last.
  Pattern* find_continuation(uint64_t prefix_hash, trace::OpIndex op_count,
                             uint64_t structure) const;

  // Gives the pattern another profile, as if it were its first one. The pointer to it is invalid
  // after this call.
  Pattern& replace(const Pattern& pattern, iteration::Profile profile, const Pattern::Key& key);
  // Drops patterns until the others fit into the memory, but for `kept`.
  void trim(const Pattern* kept);
  bool is_full() const { return size_bytes() > bytes_max_; }

  const std::vector<std::unique_ptr<Pattern>>& patterns() const { return patterns_; }

 private:
  int64_t size_bytes() const;
  void note_use(Pattern& pattern) { pattern.last_used = ++use_count_; }

  const int64_t bytes_max_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
  std::deque<int64_t> recent_;  // ids of the last iterations' patterns, newest last; 0: none
  uint64_t use_count_ = 0;
  int64_t pattern_count_ = 0;  // ever: ids begin with 1
};

}  // namespace teraio::learn
