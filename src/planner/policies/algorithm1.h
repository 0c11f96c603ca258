// Algorithm 1: the planner of "Cost-Efficient LLM Training with Lifetime-Aware Tensor Offloading
// via GPUDirect Storage" (arXiv 2506.06472).
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
// Every offloaded period writes, and reads start as late as bandwidth allows. Pressure can remain
// because no further transfer fits in time. It is then relieved without regard to time
// (select_to_fit), which the paper does not describe.
#pragma once

#include <functional>

#include "base/status.h"
#include "planner/plan_builder.h"
#include "planner/problem.h"

namespace teraio::planner {

// One choice of the algorithm: the inactive period with the largest benefit per cost.
struct Round {
  trace::TensorIndex tensor = 0;
  trace::OpIndex first_op = 0;     // of the period
  trace::OpIndex next_use_op = 0;  // modulo N; the op that frees the tensor if no op uses it again
  plan::Tier tier = plan::Tier::kSsd;
  double benefit_byte_ns = 0;
  double cost_ns = 0;
};

// Plans by Algorithm 1. Calls `observe`, when given, with every timed choice. Fails (kOutOfSpace)
// when the tiers have no room. The builder refers to `problem`.
Result<PlanBuilder> build_by_algorithm1(const Problem& problem,
                                        const std::function<void(const Round&)>& observe = {});

// The same as plan() with Policy::kAlgorithm1; also calls `observe` with every timed choice.
Result<plan::Plan> plan_algorithm1(const trace::Trace& trace, const hardware::Hardware& hardware,
                                   const plan::Limits& limits,
                                   const std::function<void(const Round&)>& observe);

}  // namespace teraio::planner
