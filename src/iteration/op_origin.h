// OpOrigin: which module, and which line of the program, an op comes from. For people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "iteration/signature.h"

namespace teraio::iteration {

// A value. The texts are kept_text().
struct OpOrigin {
  std::string_view module;    // "layers.0.mlp"; empty: none
  std::string_view location;  // "model.py:31"; empty: not known
  bool is_backward = false;   // of the backward pass of what the location runs
  // It ran where autograd records nothing, as an evaluation, a rollout or an optimizer does.
  bool is_without_gradients = false;

  bool is_known() const { return !module.empty() || !location.empty(); }
};

// "layers.0.mlp (model.py:31)", "layers.0.mlp backward (model.py:31)"; empty: not known.
std::string text_of(const OpOrigin& origin);

// Returns the same text, which stays until the process ends. For the few texts that a program's
// source has. Any thread.
std::string_view kept_text(std::string_view text);

// OriginMemory: the origins of the ops of iterations, so that the program is asked once where an op
// comes from, also when its iterations are recorded again and again. An op is known by all ops of
// the iteration up to it.
//
// Threads: one at a time.
class OriginMemory {
 public:
  void start_iteration() { ops_so_far_ = kEmptySignature; }
  // Returns what the iteration's next op is known by.
  uint64_t key_of_next(const OpSignature& signature);
  // Null: not known.
  const OpOrigin* find(uint64_t key) const;
  void set(uint64_t key, const OpOrigin& origin);

 private:
  uint64_t ops_so_far_ = kEmptySignature;
  std::unordered_map<uint64_t, OpOrigin> origins_;
};

}  // namespace teraio::iteration
