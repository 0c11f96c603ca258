// How many ops of a step a deviation at a random op costs, over traces of large models: one op
// more, one less, another one, or one that the step has elsewhere.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "iteration/follower.h"
#include "testing/test_files.h"
#include "trace/trace_file.h"

namespace teraio::iteration {
namespace {

constexpr int kDeviations = 2000;
constexpr double kLostShareMax = 0.03;

enum class Deviation { kUnknownOp, kMissingOp, kOtherOp, kRepeatedOp };

// Modelled traces name their ops by layer ("l5.o_proj"); a program's ops have no such names.
std::string name_of(const trace::Op& op) {
  const size_t dot = op.name.find('.');
  const bool has_layer = dot != std::string::npos && dot >= 2 &&
                         std::isdigit(static_cast<unsigned char>(op.name[dot - 1])) != 0;
  return has_layer ? op.name.substr(dot + 1) : op.name;
}

// As the hooks do: the op, and the persistent tensors that it uses.
std::vector<OpSignature> signatures_of(const trace::Trace& trace) {
  std::vector<OpSignature> signatures;
  for (const trace::Op& op : trace.ops) {
    const std::string name = name_of(op);
    uint64_t structure = XXH3_64bits(name.data(), name.size());
    for (const auto* tensors : {&op.reads, &op.writes})
      for (const trace::TensorIndex tensor : *tensors)
        if (trace.tensors[static_cast<size_t>(tensor)].persistent)
          structure = add_to_signature(structure, static_cast<uint64_t>(tensor) + 1);
    signatures.emplace_back(structure);
  }
  return signatures;
}

class Deviations : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto trace =
        trace::read_trace(testing::test_data(fmt::format("traces/{}.json.gz", GetParam())));
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    signatures_ = signatures_of(*trace);
    follower_.follow(std::make_shared<const OpSequence>(signatures_));
  }

  uint64_t random_op() { return random_() % signatures_.size(); }

  // Runs a step that deviates at op `at`. Returns how many of its ops were not at their places.
  int64_t lost_ops(Deviation deviation, size_t at) {
    follower_.start_iteration();
    int64_t lost = 0;
    for (size_t op = 0; op < signatures_.size(); ++op) {
      uint64_t structure = signatures_[op].structure;
      if (op == at) {
        if (deviation == Deviation::kMissingOp) continue;
        if (deviation == Deviation::kUnknownOp) lost += follower_.advance(1) != kLost;
        if (deviation == Deviation::kRepeatedOp)
          lost += follower_.advance(signatures_[random_op()].structure) != kLost;
        if (deviation == Deviation::kOtherOp) structure = 1;
      }
      lost += follower_.advance(structure) != static_cast<trace::OpIndex>(op);
    }
    return lost;
  }

  std::vector<OpSignature> signatures_;
  Follower follower_;
  std::mt19937_64 random_{7};
};

TEST_P(Deviations, CostFewOps) {
  const auto op_count = static_cast<double>(signatures_.size());
  for (const auto& [deviation, name] :
       {std::pair(Deviation::kUnknownOp, "one more"), std::pair(Deviation::kMissingOp, "one less"),
        std::pair(Deviation::kOtherOp, "another"),
        std::pair(Deviation::kRepeatedOp, "a known one more")}) {
    int64_t lost = 0;
    int64_t most = 0;
    for (int i = 0; i < kDeviations; ++i) {
      const int64_t lost_here = lost_ops(deviation, random_op());
      lost += lost_here;
      most = std::max(most, lost_here);
    }
    const double share = static_cast<double>(lost) / kDeviations / op_count;
    std::cout << GetParam() << ", " << name << ": mean " << 100 * share << " % of "
              << signatures_.size() << " ops, at most "
              << 100 * static_cast<double>(most) / op_count << " %\n";
    EXPECT_LT(share, kLostShareMax) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, Deviations, ::testing::Values("l8", "gr8", "l70", "VIT-1280"));

}  // namespace
}  // namespace teraio::iteration
