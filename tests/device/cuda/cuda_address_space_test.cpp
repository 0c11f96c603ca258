// Pages of a GPU move without a wait for compute, which the tests play.
#include "device/cuda/cuda_address_space.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <utility>

#include "base/units.h"
#include "device/cuda_device.h"
#include "testing/emulated_calls.h"
#include "testing/no_silent_skips.h"

namespace teraio::device {
namespace {

class CudaAddressSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto facts = inspect_cuda_device(0);
    if (!facts.ok()) GTEST_SKIP() << testing::kNotApplicable << facts.status().message();
    auto space = CudaAddressSpace::reserve(
        {.size_bytes = 256 * kMiB,
         .least_bytes = 256 * kMiB,
         .page_bytes = 2 * kMiB,
         .compute = {.record = [this] { return Result<Event>(Event{++recorded_}); },
                     .has_passed = [this](Event event) { return event.id <= passed_; },
                     .wait =
                         [this](Event event) {
                           ++wait_count_;
                           passed_ = std::max(passed_, event.id);
                           return Status();
                         }},
         .pause_copies_to_host = [this] {
           ++pause_count_;
           return PauseOfCopiesToHost(copies_);
         }});
    ASSERT_TRUE(space.ok()) << space.status().message();
    space_ = std::move(*space);
    page_bytes_ = space_->page_bytes();
  }

  ByteRange pages(int64_t first, int64_t count) const {
    return {first * page_bytes_, count * page_bytes_};
  }
  void fill(int64_t page, int value) {
    ASSERT_EQ(cudaMemset(space_->at(page * page_bytes_), value, page_bytes_), cudaSuccess);
  }
  int first_byte(int64_t page) const {
    unsigned char byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, space_->at(page * page_bytes_), 1, cudaMemcpyDeviceToHost),
              cudaSuccess);
    return byte;
  }
  static int64_t gpu_free_bytes() {
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
    return static_cast<int64_t>(free_bytes);
  }

  uint64_t recorded_ = 0;
  uint64_t passed_ = 0;
  int wait_count_ = 0;
  int pause_count_ = 0;
  std::mutex copies_;
  std::unique_ptr<CudaAddressSpace> space_;
  int64_t page_bytes_ = 0;
};

TEST_F(CudaAddressSpaceTest, OldAddressesShowThePagesUntilComputeHasPassed) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_EQ(space_->move(pages(0, 2), 8 * page_bytes_), 2 * page_bytes_);
  EXPECT_EQ(wait_count_, 0);
  EXPECT_TRUE(space_->may_be_in_use(pages(9, 1)));
  EXPECT_FALSE(space_->may_be_in_use(pages(10, 1)));
  fill(9, 7);
  EXPECT_EQ(first_byte(1), 7);
  passed_ = recorded_;
  EXPECT_FALSE(space_->may_be_in_use(pages(9, 1)));
}

TEST_F(CudaAddressSpaceTest, AddressesThatComputeMayUseAreWaitedFor) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * page_bytes_), page_bytes_);
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  EXPECT_EQ(wait_count_, 1);
  fill(8, 7);
  fill(0, 5);
  EXPECT_EQ(first_byte(8), 7) << "a page of its own is there";
}

TEST_F(CudaAddressSpaceTest, AddressesThatComputeHasLeftAreNotWaitedFor) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * page_bytes_), page_bytes_);
  passed_ = recorded_;
  ASSERT_EQ(space_->move(pages(1, 1), 0), page_bytes_);
  EXPECT_EQ(wait_count_, 0);
  fill(8, 7);
  fill(0, 5);
  EXPECT_EQ(first_byte(8), 7);
}

TEST_F(CudaAddressSpaceTest, APageMovesAgainAtOnce) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  for (const int64_t to : {4, 8, 12})
    ASSERT_EQ(space_->move(pages(to - 4, 1), to * page_bytes_), page_bytes_);
  EXPECT_EQ(wait_count_, 0);
  fill(12, 7);
  EXPECT_EQ(first_byte(0), 7);
  EXPECT_TRUE(space_->may_be_in_use(pages(12, 1)));
}

// It is mapped there still: nothing is waited for, although compute may use both addresses.
TEST_F(CudaAddressSpaceTest, APageMovesBackAtOnce) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * page_bytes_), page_bytes_);
  ASSERT_EQ(space_->move(pages(8, 1), 0), page_bytes_);
  EXPECT_EQ(wait_count_, 0);
  fill(0, 7);
  EXPECT_EQ(first_byte(8), 7);
}

TEST_F(CudaAddressSpaceTest, SeveralPagesPauseCopiesToTheHostAndOneDoesNot) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  ASSERT_TRUE(space_->commit(pages(1, 1)));
  EXPECT_EQ(pause_count_, 0);
  ASSERT_EQ(space_->move(pages(0, 2), 8 * page_bytes_), 2 * page_bytes_);
  EXPECT_EQ(pause_count_, 1);
  ASSERT_EQ(space_->move(pages(8, 1), 16 * page_bytes_), page_bytes_);
  EXPECT_EQ(pause_count_, 1);
  EXPECT_TRUE(copies_.try_lock()) << "copies go on";
  copies_.unlock();
}

// A point takes a call of the runtime, a page that comes back does not.
TEST_F(CudaAddressSpaceTest, PagesThatComeBackHaveAPointWhenOneIsNeeded) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * page_bytes_), page_bytes_);
  passed_ = recorded_;
  ASSERT_EQ(space_->move(pages(8, 1), 0), page_bytes_);
  EXPECT_EQ(recorded_, 1u);
  EXPECT_TRUE(space_->may_be_in_use(pages(0, 1))) << "nothing tells that compute has passed";
  ASSERT_TRUE(space_->commit(pages(8, 1)));
  EXPECT_EQ(recorded_, 2u);
  EXPECT_EQ(wait_count_, 1);
  fill(0, 7);
  fill(8, 5);
  EXPECT_EQ(first_byte(0), 7) << "a page of its own is there";
}

TEST_F(CudaAddressSpaceTest, AnotherPageTakesTheAddressesThatOneHasLeft) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * page_bytes_), page_bytes_);
  passed_ = recorded_;
  ASSERT_EQ(space_->move(pages(8, 1), 9 * page_bytes_), page_bytes_);
  ASSERT_EQ(space_->move(pages(1, 1), 0), page_bytes_);
  EXPECT_EQ(wait_count_, 0);
  fill(9, 7);
  fill(0, 5);
  EXPECT_EQ(first_byte(8), 7);
  EXPECT_EQ(first_byte(1), 5);
}

TEST_F(CudaAddressSpaceTest, PagesReturnToTheSystemWithTheirOldAddresses) {
  const int64_t free_bytes = gpu_free_bytes();
  ASSERT_TRUE(space_->commit(pages(0, 4)));
  ASSERT_EQ(space_->move(pages(0, 4), 8 * page_bytes_), 4 * page_bytes_);
  EXPECT_EQ(gpu_free_bytes(), free_bytes - 4 * page_bytes_) << "a page takes memory once";
  ASSERT_TRUE(space_->decommit(pages(8, 4)));
  EXPECT_EQ(wait_count_, 1);
  EXPECT_EQ(gpu_free_bytes(), free_bytes);
}

// Only one of two adjacent pages: the driver tells which when it is asked to map it.
TEST_F(CudaAddressSpaceTest, APageThatTheDriverDoesNotMapAgainIsReplaced) {
  const auto limit_maps = testing::emulated_map_limit();
  if (limit_maps == nullptr)
    GTEST_SKIP() << testing::kNotApplicable << "a real driver refuses no page when it is asked to";
  ASSERT_TRUE(space_->commit(pages(1, 1)));
  ASSERT_EQ(space_->move(pages(1, 1), 4 * page_bytes_), page_bytes_);
  ASSERT_EQ(space_->move(pages(4, 1), page_bytes_), page_bytes_);
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  ASSERT_TRUE(space_->commit(pages(2, 1)));
  const int64_t free_bytes = gpu_free_bytes();
  limit_maps(2);
  const int64_t moved_bytes = space_->move(pages(0, 3), 8 * page_bytes_);
  limit_maps(INT64_MAX);
  ASSERT_EQ(moved_bytes, 3 * page_bytes_);
  EXPECT_EQ(wait_count_, 1) << "compute may have used the page that returned";
  EXPECT_EQ(gpu_free_bytes(), free_bytes);
  for (const int page : {8, 9, 10}) fill(page, page);
  for (const int page : {8, 9, 10}) EXPECT_EQ(first_byte(page), page);
  EXPECT_EQ(first_byte(0), 8) << "the others are where they were, too";
  EXPECT_EQ(first_byte(2), 10);
}

}  // namespace
}  // namespace teraio::device
