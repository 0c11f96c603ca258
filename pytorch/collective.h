// Collectives: a communication library works on an op's tensors after the op has returned, on
// threads or streams of its own.
//
// They stay where they are until its Work is over. That is so when nobody but us has the Work any
// more, so that nobody can wait for it: the library's threads have let go of it, and the program
// has waited, as it must before it uses the results (gloo's reduce_scatter only begins its last
// copy then, and its Work never says that it is complete). On a GPU, where a library other than
// gloo keeps no Work for what it has given to the GPU, it has to be complete besides.
#pragma once

#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "active_session.h"
#include "op_info.h"

namespace teraio::pytorch {

// The tensors behind the arguments of a c10d op that is about to run.
class CollectiveOperands {
 public:
  // Brings them back and holds them. Raises when one cannot come.
  CollectiveOperands(ActiveSession& session, const OpInfo& info, const torch::jit::Stack& stack);
  // Lets go of them, if keep_until_over() was not called: the op has failed.
  ~CollectiveOperands();
  CollectiveOperands(const CollectiveOperands&) = delete;
  CollectiveOperands& operator=(const CollectiveOperands&) = delete;

  // The op has left its results on the stack. Without a Work among them it is over, or ordered with
  // the stream that it was asked on; in a coalesced group nothing tells the end: the operands stay
  // for good.
  void keep_until_over(const torch::jit::Stack& stack);

 private:
  void pin_permanently();

  ActiveSession& session_;
  const OpInfo& info_;
  std::vector<engine::LiveTensor*> held_;
  bool has_to_complete_ = false;
};

// From now on the calling thread's collectives only begin at the end of a group: a Work of theirs
// tells nothing (NCCL's says that it is complete).
void set_coalescing(bool is_on);

inline std::atomic<bool> has_collectives_under_way = false;

// Operands of what is over may move again.
void let_go_of_ended_collectives();

// Bytes of operands of collectives that are under way.
int64_t collective_bytes();

// All of them may, as far as this goes: the session ends, and nothing moves any more.
void forget_collectives();

}  // namespace teraio::pytorch
