// Pages of a GPU return to it when compute, which the tests play, has passed.
#include "device/cuda/cuda_address_space.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
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
    auto space = CudaAddressSpace::reserve({.size_bytes = 256 * kMiB,
                                            .least_bytes = 256 * kMiB,
                                            .page_bytes = 2 * kMiB,
                                            .wait_for_compute = [this] {
                                              ++wait_count_;
                                              return is_gpu_alive_
                                                         ? Status()
                                                         : Status(ErrorCode::kDeviceFailed, "lost");
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

  int wait_count_ = 0;
  bool is_gpu_alive_ = true;
  std::unique_ptr<CudaAddressSpace> space_;
  int64_t page_bytes_ = 0;
};

TEST_F(CudaAddressSpaceTest, CommittedPagesKeepTheirBytes) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_TRUE(space_->commit(pages(4, 1)));
  for (const int page : {0, 1, 4}) fill(page, page + 1);
  for (const int page : {0, 1, 4}) EXPECT_EQ(first_byte(page), page + 1);
  EXPECT_EQ(wait_count_, 0);
}

TEST_F(CudaAddressSpaceTest, PagesReturnToTheSystemAfterCompute) {
  const int64_t free_bytes = gpu_free_bytes();
  ASSERT_TRUE(space_->commit(pages(0, 4)));
  EXPECT_EQ(gpu_free_bytes(), free_bytes - 4 * page_bytes_);
  ASSERT_TRUE(space_->decommit(pages(1, 2)));
  EXPECT_EQ(wait_count_, 1);
  EXPECT_EQ(gpu_free_bytes(), free_bytes - 2 * page_bytes_);
  ASSERT_TRUE(space_->commit(pages(2, 1)));
  fill(2, 7);
  EXPECT_EQ(first_byte(2), 7);
}

TEST_F(CudaAddressSpaceTest, PagesStayWhereComputeDoesNotEnd) {
  ASSERT_TRUE(space_->commit(pages(0, 1)));
  fill(0, 7);
  is_gpu_alive_ = false;
  EXPECT_FALSE(space_->decommit(pages(0, 1)));
  EXPECT_EQ(first_byte(0), 7);
}

TEST_F(CudaAddressSpaceTest, APageThatTheDriverDoesNotMapLeavesNothingBehind) {
  const auto limit_maps = testing::emulated_map_limit();
  if (limit_maps == nullptr)
    GTEST_SKIP() << testing::kNotApplicable << "a real driver refuses no page when it is asked to";
  const int64_t free_bytes = gpu_free_bytes();
  limit_maps(0);
  const bool is_committed = space_->commit(pages(0, 3));
  limit_maps(INT64_MAX);
  EXPECT_FALSE(is_committed);
  EXPECT_EQ(gpu_free_bytes(), free_bytes);
  EXPECT_TRUE(space_->commit(pages(0, 3)));
}

}  // namespace
}  // namespace teraio::device
