// What the index of a trace says of uses and lifetimes, on a trace that can be checked by eye.
#include "trace/trace_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace teraio::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TensorIndex kWeight = 0;
constexpr TensorIndex kActivation = 1;
constexpr TensorIndex kScratch = 2;
constexpr TensorIndex kUnused = 3;
constexpr TensorIndex kConstant = 4;

// The trace that the header draws, with a tensor of one op and two that no op uses.
//
//   op           0   1   2   3   4   5
//   weight       r   .   .   .   W   .     100 bytes, persistent
//   activation   .   W   .   r   .   f      10 bytes
//   scratch      .   .   W   .   .   .       1 byte; dies with its only use
Trace drawn() {
  const auto tensor = [](int64_t id, int64_t size_bytes, bool persistent) {
    return Tensor{id, size_bytes, persistent, TensorKind::kOther, ""};
  };
  return {"drawn",
          "modelled",
          {tensor(0, 100, true), tensor(1, 10, false), tensor(2, 1, false), tensor(3, 7, false),
           tensor(4, 1000, true)},
          {{"op", 5, {kWeight}, {}, {}, 0},
           {"op", 5, {}, {kActivation}, {}, 3},
           {"op", 5, {}, {kScratch}, {}, 0},
           {"op", 5, {kActivation}, {}, {}, 0},
           {"op", 5, {}, {kWeight}, {}, 0},
           {"op", 5, {}, {}, {kActivation}, 0}}};
}

template <typename T>
std::vector<T> list(std::span<const T> values) {
  return {values.begin(), values.end()};
}

TEST(TraceIndex, UsesAreInTheOrderOfOps) {
  const TraceIndex index(drawn());
  EXPECT_THAT(list(index.uses[kWeight]), ElementsAre(TensorUse{0, false}, TensorUse{4, true}));
  EXPECT_THAT(list(index.uses[kActivation]), ElementsAre(TensorUse{1, true}, TensorUse{3, false}));
  EXPECT_THAT(list(index.uses[kUnused]), IsEmpty());
}

TEST(TraceIndex, ATensorLivesFromItsFirstUseUntilItIsFreed) {
  const TraceIndex index(drawn());
  EXPECT_FALSE(index.is_alive(kActivation, 0));
  EXPECT_TRUE(index.is_alive(kActivation, 1));
  EXPECT_TRUE(index.is_alive(kActivation, 5));
  EXPECT_TRUE(index.is_alive(kScratch, 2));
  EXPECT_FALSE(index.is_alive(kScratch, 3));
  EXPECT_TRUE(index.is_alive(kConstant, 0));
  EXPECT_FALSE(index.is_alive(kUnused, 0));
}

TEST(TraceIndex, ABirthIsNotThereBeforeItsOp) {
  const TraceIndex index(drawn());
  EXPECT_FALSE(index.exists_before(kActivation, 1));
  EXPECT_TRUE(index.exists_before(kActivation, 2));
  EXPECT_TRUE(index.exists_before(kWeight, 0));
  EXPECT_FALSE(index.exists_before(kUnused, 0));
}

TEST(TraceIndex, BirthsAndDeathsAreThoseOfTheIteration) {
  const TraceIndex index(drawn());
  EXPECT_THAT(list(index.births[1]), ElementsAre(kActivation));
  EXPECT_THAT(list(index.deaths[2]), ElementsAre(kScratch));
  EXPECT_THAT(list(index.deaths[5]), ElementsAre(kActivation));
  EXPECT_THAT(index.birth_bytes, ElementsAre(0, 10, 1, 0, 0, 0));
  EXPECT_THAT(index.death_bytes, ElementsAre(0, 0, 1, 0, 0, 10));
  EXPECT_EQ(index.persistent_bytes, 1100);
}

TEST(TraceIndex, TheNextUseOfAPersistentTensorMayBeInTheNextIteration) {
  const TraceIndex index(drawn());
  EXPECT_EQ(index.ops_until_use(kWeight, 0), 0);
  EXPECT_EQ(index.ops_until_use(kWeight, 1), 3);
  EXPECT_EQ(index.ops_until_use(kWeight, 5), 1);
  EXPECT_EQ(index.ops_until_use(kActivation, 2), 1);
  EXPECT_EQ(index.ops_until_use(kActivation, 4), 6) << "no op uses it again";
  EXPECT_EQ(index.ops_until_use(kConstant, 4), 6) << "no op uses it at all";
}

TEST(TraceIndex, BytesOfAnOp) {
  const TraceIndex index(drawn());
  EXPECT_EQ(index.allocated_bytes(1), 13);
  EXPECT_EQ(index.active_bytes(1), 13);
  EXPECT_EQ(index.active_bytes(3), 10);
  EXPECT_EQ(index.ideal_ns, 30);
}

TEST(TraceIndex, OfATraceWithoutOps) {
  const TraceIndex index(Trace{"t", "", {{0, 1, true, TensorKind::kOther, ""}}, {}});
  EXPECT_EQ(index.op_count(), 0);
  EXPECT_EQ(index.tensor_count(), 1);
}

}  // namespace
}  // namespace teraio::trace
