// DifferenceLog: where iterations were other than the pattern that was followed, for people.
//
// The first op of an iteration that differs counts, since later ones often follow from it: the
// first one that is another op, and the first one that has inputs of other sizes. Iterations that
// differ in the same way count as one entry.
//
// Threads: under the lock of its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "iteration/profile.h"

namespace teraio::learn {

// One way in which iterations differ from those of a pattern. A value.
struct Difference {
  enum class Kind : uint8_t {
    kOps,    // the program ran another op than the pattern has there
    kSizes,  // it ran the same op on tensors of other sizes
    kEnd,    // the iteration ended before the pattern does
  };
  Kind kind = Kind::kOps;
  int64_t pattern = 0;          // PatternSummary::id of the pattern that was followed
  trace::OpIndex position = 0;  // in it
  uint64_t structure = 0;       // of the op that the program ran; 0 for kEnd
  std::string op;               // its name; empty for kEnd, and until it is known
  std::string expected_op;      // that the pattern has there; empty behind its last one
  std::string parameter;        // that the pattern has used last by then; empty: none with a name
  std::string location;         // in the program, as set_place() was told
  int64_t iteration_count = 0;
  // Of the op's inputs that are not persistent, in the pattern and in the program; only of kSizes.
  int64_t expected_bytes = 0;
  int64_t smallest_bytes = 0;
  int64_t largest_bytes = 0;
};

class DifferenceLog {
 public:
  static constexpr size_t kEntriesMax = 100;

  // Counts an iteration that differs from the pattern whose profile this is; op, location and bytes
  // of `difference` do not matter. Returns the number of its entry if that is new, counted from 1;
  // else 0. When there are kEntriesMax, new ones are dropped.
  size_t note(const Difference& difference, const iteration::Profile& profile);
  // The same for kSizes, where the inputs of the op have so many bytes instead.
  size_t note_sizes(const Difference& difference, const iteration::Profile& profile,
                    int64_t expected_bytes, int64_t found_bytes);
  // Where the program ran the op of a new entry.
  void set_place(size_t entry, std::string op, std::string location);

  // In the order in which they came.
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  Difference* find(const Difference& difference);

  std::vector<Difference> differences_;
};

}  // namespace teraio::learn
