// Plans for traces that nothing was tuned on: the real ones in other precisions and sizes.
#include <gtest/gtest.h>

#include "planner/bounds.h"
#include "planner/planned_case.h"

namespace teraio::planner {
namespace {

struct Variant {
  const char* trace;
  const char* hardware;
  double state_bytes = 1;  // of parameters, gradients and optimizer states; the factor
  double activation_bytes = 1;
  double duration = 1;
  const char* name = "";
};

bool is_state(const trace::Tensor& tensor) {
  return tensor.persistent || tensor.kind == trace::TensorKind::kGradient;
}

int64_t scaled(int64_t amount, double factor) {
  return static_cast<int64_t>(static_cast<double>(amount) * factor);
}

trace::Trace made_from(trace::Trace trace, const Variant& variant) {
  for (trace::Tensor& tensor : trace.tensors)
    tensor.size_bytes = scaled(tensor.size_bytes,
                               is_state(tensor) ? variant.state_bytes : variant.activation_bytes);
  for (trace::Op& op : trace.ops) {
    op.duration_ns = scaled(op.duration_ns, variant.duration);
    op.workspace_bytes = scaled(op.workspace_bytes, variant.activation_bytes);
  }
  return trace;
}

class Variants : public ::testing::TestWithParam<Variant> {};

TEST_P(Variants, ArePlannedNearTheBoundAndBetterThanByAlgorithm1) {
  testing::PlannedCase given = testing::case_of(GetParam().trace, GetParam().hardware);
  given.trace = made_from(std::move(given.trace), GetParam());
  const int64_t ours_ns = given.step_ns({.recompute = Recompute::kOff});
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, {}).best_ns();
  EXPECT_GE(ours_ns, bound_ns);
  EXPECT_LE(static_cast<double>(ours_ns), 1.07 * static_cast<double>(bound_ns));
  EXPECT_LT(ours_ns, given.step_ns({.policy = Policy::kAlgorithm1}));
}

INSTANTIATE_TEST_SUITE_P(Files, Variants,
                         ::testing::Values(Variant{"l8", "h100_ssd", 1, 2, 2, "LongerSequences"},
                                           Variant{"l8", "h100_ssd", 1, 1.5, 1.4, "LargerBatches"},
                                           Variant{"VIT-1280", "a100_g10", 1, 2, 2, "LargerImages"},
                                           Variant{"l70", "h100_p385", 0.5, 0.5, 0.25,
                                                   "HalfPrecisionWithHostMemory"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace teraio::planner
