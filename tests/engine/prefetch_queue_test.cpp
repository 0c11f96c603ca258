#include "engine/prefetch_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace teraio::engine {
namespace {

class PrefetchQueueTest : public ::testing::Test {
 protected:
  std::vector<const LiveTensor*> take_all() {
    std::vector<const LiveTensor*> taken;
    for (; !queue_.is_empty(); queue_.remove_first()) taken.push_back(&queue_.first());
    return taken;
  }

  PrefetchQueue queue_;
  std::array<LiveTensor, 3> t_;
};

TEST_F(PrefetchQueueTest, TheEarliestDeadlineComesFirst) {
  queue_.add(t_[0], 7);
  queue_.add(t_[1], 3);
  queue_.add(t_[2], 5);
  EXPECT_EQ(t_[1].planned.prefetch_deadline, 3);
  EXPECT_EQ(take_all(), (std::vector<const LiveTensor*>{&t_[1], &t_[2], &t_[0]}));
}

TEST_F(PrefetchQueueTest, EqualDeadlinesKeepTheirOrder) {
  for (LiveTensor& tensor : t_) queue_.add(tensor, 4);
  EXPECT_EQ(take_all(), (std::vector<const LiveTensor*>{&t_[0], &t_[1], &t_[2]}));
}

TEST_F(PrefetchQueueTest, RemovesATensorWhereverItIs) {
  queue_.add(t_[0], 1);
  queue_.add(t_[1], 2);
  queue_.remove(t_[1]);
  queue_.remove(t_[2]);
  EXPECT_EQ(take_all(), (std::vector<const LiveTensor*>{&t_[0]}));
}

TEST_F(PrefetchQueueTest, ClearingForgetsAll) {
  queue_.add(t_[0], 1);
  queue_.clear();
  EXPECT_TRUE(queue_.is_empty());
}

}  // namespace
}  // namespace teraio::engine
