// Algorithm 1: the paper's planner ("Cost-Efficient LLM Training with Lifetime-Aware Tensor
// Offloading via GPUDirect Storage", arXiv 2506.06472).
//
//   while an op needs more memory than the device has:
//     for each inactive period that is not offloaded yet:
//       benefit = the memory pressure that the period relieves, integrated over time between the
//                 end of its write and the start of its read, under the bandwidth that is left
//       cost    = the time of its write and its read
//     offload the period with the largest benefit / cost; book its transfers
//
//   bytes
//     |        .--.                    the pressure is the area above the budget;
//     |     .--####--.                 # is the part of it that an offloaded tensor relieves
//   --|---.-----####---.------ budget
//     |.--   write^  ^read --.
//     +------------------------ time
//
// Every offloaded period writes, and reads start as late as bandwidth allows. Pressure that is left
// because no transfer fits in time is then relieved without regard to time (select_to_fit), which
// the paper does not describe.
#pragma once

#include <functional>

#include "base/status.h"
#include "planner/plan_builder.h"
#include "planner/problem.h"

namespace teraio::planner {

// One choice: the inactive period with the best benefit per cost.
struct Round {
  trace::TensorIndex tensor = 0;
  trace::OpIndex first_op = 0;     // of the period
  trace::OpIndex next_use_op = 0;  // of this iteration or the next; the tensor's last op if none
  plan::Tier tier = plan::Tier::kSsd;
  double benefit_byte_ns = 0;
  double cost_ns = 0;
};

// Calls `observe`, when given, with every choice. Fails (kOutOfSpace) when the tiers have no room.
// The builder refers to `problem`.
Result<PlanBuilder> build_by_algorithm1(const Problem& problem,
                                        const std::function<void(const Round&)>& observe = {});

// plan() with Policy::kAlgorithm1; `observe` is called with every choice.
Result<plan::Plan> plan_algorithm1(const trace::Trace& trace, const hardware::Hardware& hardware,
                                   const plan::Limits& limits,
                                   const std::function<void(const Round&)>& observe);

}  // namespace teraio::planner
