#include "device/cuda/copy_order.h"

#include <gtest/gtest.h>

#include <set>

namespace teraio::device {
namespace {

class CopyOrderTest : public ::testing::Test {
 protected:
  size_t choose(uint64_t after) {
    return order_.choose(Event{after}, [this](Event event) {
      ++asked_count_;
      return passed_.count(event.id) > 0;
    });
  }

  CopyOrder order_;
  std::set<uint64_t> passed_;
  int asked_count_ = 0;
};

TEST_F(CopyOrderTest, CopiesInTheOrderOfComputeShareAStream) {
  const size_t stream = choose(10);
  for (const uint64_t after : {10u, 20u, 20u, 30u}) EXPECT_EQ(choose(after), stream);
  EXPECT_EQ(asked_count_, 0);
}

TEST_F(CopyOrderTest, NoCopyIsBehindOneThatWaitsForLaterCompute) {
  const size_t latest = choose(30);
  const size_t earlier = choose(20);
  EXPECT_NE(earlier, latest);
  EXPECT_NE(choose(0), latest) << "what waits for nothing";
  EXPECT_EQ(choose(25), earlier);
  EXPECT_EQ(choose(31), latest);
  EXPECT_EQ(asked_count_, 0);
}

TEST_F(CopyOrderTest, AStreamWhoseWaitsHavePassedIsFree) {
  std::set<size_t> streams;
  for (const uint64_t after : {50u, 40u, 30u, 20u}) streams.insert(choose(after));
  ASSERT_EQ(streams.size(), CopyOrder::kStreams);
  passed_ = {40};
  const size_t freed = choose(10);
  EXPECT_EQ(choose(35), 2u) << "30 waits there, which is the latest before 35";
  EXPECT_EQ(choose(15), freed);
}

TEST_F(CopyOrderTest, WithoutAFreeStreamItIsTheOneWithTheEarliestWait) {
  for (const uint64_t after : {50u, 40u, 30u}) choose(after);
  const size_t earliest = choose(20);
  EXPECT_EQ(choose(10), earliest);
}

}  // namespace
}  // namespace teraio::device
