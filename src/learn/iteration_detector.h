// IterationDetector: divides the ops of a program into iterations and tells whether they repeat.
//
// A step is what runs from one optimizer update to the next. Where the framework reports no steps,
// a step ends when a parameter is about to change for the second time after a use in between. An
// iteration is one step, or several in a row when only the row repeats, as with two optimizers
// that take turns:
//
//   steps       A B A B A B        period 1: A != B        period 2: AB == AB
//   iterations  [A B] [A B] [A B]
//
// Steps may be equal and yet not the whole, as where each stage of a pipeline has an optimizer. So
// the number of steps after which an optimizer steps again tells the period: of the first one that
// does, and later of each that does so twice in a row. Then longer rows are a coincidence, and the
// iteration ends with that optimizer, as where a GAN's judge makes a drawn number of steps:
//
//   optimizers  J J G J G J J J G
//   iterations  [J J G] [J G] [J J J G]
//
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/use.h"
#include "iteration/signature.h"

namespace teraio::learn {

class IterationDetector {
 public:
  // The framework reports steps from now on: changes of parameters end no step any more. True at
  // the first call: what they have ended were parts of the first step, such as the initialization
  // of weights.
  bool expect_steps();

  // Before an op. True when a step ends before it: the op begins the update of another step.
  bool begins_new_update(std::span<const engine::Use> uses) {
    return !expects_steps_ && note_update(uses);
  }

  void add_op(const iteration::OpSignature& signature, bool uses_tensors) {
    is_step_empty_ &= !uses_tensors;
    step_hash_ = iteration::add_to_signature(step_hash_, signature.structure);
    step_hash_ = iteration::add_to_signature(step_hash_, signature.sizes);
    ++op_count_;
  }

  // True when the iteration ends with the step. A step whose ops use no tensor is none: the
  // step of an optimizer that calls the step of another one ends right after it, with a marker for
  // profilers between them. These ops belong to the next step. `optimizer` tells which one has
  // stepped; 0: it is not known.
  bool end_step(uint64_t optimizer = 0);

  // Of the iteration that is about to end, whose last step has ended: it has the ops of the one
  // before it.
  bool is_repeated() const { return iteration_hash_ == previous_iteration_hash_; }

  // An iteration consists of several steps.
  bool has_period() const { return steps_per_iteration_ > 1; }
  // Looks for a period in the last steps; later iterations consist of so many.
  void find_period();
  // When a period has been found, once: how many of the last iterations, which were steps, are
  // parts of the one that runs, of the one before it, and so on. Otherwise empty.
  std::vector<int64_t> take_parts();

  // The next op begins an iteration. `is_complete`: the last one ended where iterations do, so that
  // the next one may repeat it.
  void start_iteration(bool is_complete);

  // Of this iteration so far.
  int64_t op_count() const { return op_count_; }

 private:
  // In steps.
  struct Returns {
    int64_t last_step = 0;
    int64_t distance = 0;  // of its last two steps
    int64_t period = 0;    // the distance that tells one
    int64_t step_count = 0;
  };

  bool note_update(std::span<const engine::Use> uses);
  void note_optimizer(uint64_t optimizer);
  bool may_be_period(int64_t distance) const;
  int64_t least_period() const;
  int64_t most_steps() const;
  bool ends_iteration(uint64_t optimizer) const;
  uint64_t previous_optimizer() const;
  uint64_t rarest_optimizer(int64_t distance) const;

  bool expects_steps_ = false;
  uint64_t step_hash_ = iteration::kEmptySignature;
  bool is_step_empty_ = true;
  std::vector<uint64_t> step_hashes_;  // the last ones
  int64_t step_count_ = 0;
  std::unordered_map<uint64_t, Returns> returns_;  // by optimizer
  bool has_return_ = false;                        // one has stepped again
  uint64_t update_count_ = 1;
  int64_t steps_per_iteration_ = 1;  // most of them, where the last optimizer is known
  uint64_t last_optimizer_ = 0;      // whose step ends an iteration; 0: the number of steps does
  // Those that ended the last iterations, until a period is known.
  std::deque<uint64_t> last_steps_;
  int64_t step_in_iteration_ = 0;
  uint64_t iteration_hash_ = iteration::kEmptySignature;  // of the steps that have ended
  uint64_t previous_iteration_hash_ = 0;
  int64_t op_count_ = 0;
};

}  // namespace teraio::learn
