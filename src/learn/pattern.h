// Pattern: iterations that run the same ops on the same persistent tensors, and the plans for them.
//
// Iterations of one pattern may differ in the sizes of their tensors: sequences have other lengths,
// experts get other numbers of tokens. Sizes that have been measured are a Variant each. The
// smallest plan with room serves other sizes, until the one of a variant that fits better is made:
//
//   bytes at an op    128       256        640                   1024
//   variants          planned   measured   runs on the plan of   planned
//
// Where each of two variants has tensors that are larger than the other's, since each part of the
// iteration has sizes of its own, the pattern is irregular: one plan for the largest size of each
// tensor serves all. A plan that was made for larger tensors than the program has is safe. One for
// smaller tensors may run short of memory, and the engine then evicts on demand.
//
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "iteration/op_sequence.h"
#include "iteration/parts.h"
#include "iteration/profile.h"
#include "iteration/schedule.h"

namespace teraio::learn {

// The plan of a variant: how it came, and what is known of it. A value.
struct PlanFacts {
  bool is_found = false;  // by a search, and not the first one or made again
  int64_t from_step = 0;  // the first step that may have followed it; the session's first is 1
  double gain = 0;        // of a found one: the share of the step that it saves, as predicted
  // The steps whose op times it and its prediction have.
  int64_t first_timed_step = 0;
  int64_t last_timed_step = 0;
};

// One combination of sizes. All variants of a pattern are alike (are_alike()).
struct Variant {
  std::shared_ptr<const iteration::Schedule> schedule;  // without a plan until one has been made
  uint64_t sizes = 0;              // a hash of all sizes; meaningless unless is_measured
  bool is_measured = true;         // false: the largest size of each tensor
  int64_t ticket = 0;              // of the plan that is being made; 0: none is
  Status planning_status;          // of the last plan
  int64_t iterations_on_plan = 0;  // since it was made first, or far from its prediction
  PlanFacts plan_facts;            // of the plan; and of the one that is being made
  PlanFacts next_plan_facts;
  int64_t steps_since_change = 0;  // iterations as expected on this plan
  int64_t far_steps = 0;           // the last ones of them that were far from the prediction
  int64_t far_replan_count = 0;
  int64_t searches_left = 0;

  bool is_planned() const { return schedule->is_planned(); }
  bool is_in_use() const { return is_planned() || ticket != 0; }  // planned, or being planned
  const iteration::Profile& profile() const { return schedule->profile(); }
};

// What the inputs of an op of the running program take.
struct SizesAtOp {
  trace::OpIndex op = 0;
  uint64_t sizes = 0;  // OpSignature::sizes
  size_t input_count = 0;
  int64_t bytes = 0;  // of the inputs that are not persistent
};

class Pattern {
 public:
  static constexpr size_t kMeasuredMax = 16;
  // Smaller inputs may be anything, the next batch for example: their sizes tell nothing of others.
  static constexpr int64_t kTellingBytes = 64 * kKiB;

  // `ops` is a hash of the ops, without the tensors that identify them; `sizes` one of the sizes.
  struct Key {
    uint64_t ops = 0;
    uint64_t sizes = 0;
  };
  Pattern(iteration::Profile profile, const Key& key);

  uint64_t ops() const { return ops_; }

  const std::shared_ptr<const iteration::OpSequence>& sequence() const { return sequence_; }
  trace::OpIndex op_count() const { return sequence_->size(); }
  // What an iteration consists of, for people.
  std::string name() const { return iteration::parts_of(variants_.front()->profile()); }
  bool is_like(const iteration::Profile& profile) const;
  // The order is that in which they came; the first one is measured.
  const std::vector<std::shared_ptr<Variant>>& variants() const { return variants_; }
  bool is_planned() const;
  bool is_in_use() const;  // planned, or being planned
  bool is_irregular() const { return is_irregular_; }
  size_t measured_count() const { return measured_count_; }

  // A measured variant with these sizes; null: there is none.
  std::shared_ptr<Variant> measured(uint64_t sizes) const;
  // Adds a measured variant. Returns null when there are enough: profile is not kept. Requires
  // is_like(profile) and that no variant has these sizes.
  std::shared_ptr<Variant> add_measured(iteration::Profile profile, uint64_t sizes);

  // The planned variant that fits the sizes best: one with exactly these, else the smallest one
  // that has room for them, else the largest one. Null: none is planned.
  std::shared_ptr<Variant> fitting(const SizesAtOp& at) const;
  // Whether the variant has room for the inputs of the op.
  static bool has_room(const Variant& variant, const SizesAtOp& at);

  // A variant that would fit better with a plan, and what makes the profile for it. The latter may
  // be called by another thread later.
  struct Wanted {
    std::shared_ptr<Variant> variant;
    std::function<iteration::Profile()> profile;
  };
  // Nothing: the plans that there are or are being made fit as well.
  std::optional<Wanted> wanted(const SizesAtOp& at);
  // A plan has been made. Returns its variant, or null if the ticket is none of this pattern's.
  // After a failure, the variant keeps its schedule.
  std::shared_ptr<Variant> take_made(
      int64_t ticket, const Result<std::shared_ptr<const iteration::Schedule>>& made);

  int64_t size_bytes() const;  // of memory, roughly

  int64_t id = 0;  // differs from that of every other pattern of its library
  int64_t iteration_count = 0;
  int64_t ops_run = 0;                     // in iterations of this pattern
  int64_t ops_planned = 0;                 // those of them that followed a plan
  uint64_t last_used = 0;                  // orders patterns
  std::vector<trace::OpIndex> banned_ops;  // not to be replayed

 private:
  void note_sizes(const iteration::Profile& profile);
  bool is_irregular_beside(const iteration::Profile& profile) const;
  std::shared_ptr<Variant> best(const SizesAtOp& at, bool (*is_candidate)(const Variant&)) const;

  const uint64_t ops_;
  std::vector<std::shared_ptr<Variant>> variants_;
  std::shared_ptr<const iteration::OpSequence> sequence_;
  size_t measured_count_ = 1;
  bool is_irregular_ = false;
  // Of all measured variants, and with a plan for it or an earlier one; null unless is_irregular_.
  std::shared_ptr<const iteration::Profile> envelope_;
  std::shared_ptr<Variant> roomy_;
  bool is_envelope_new_ = false;  // larger than the one that a plan was wanted for
};

}  // namespace teraio::learn
