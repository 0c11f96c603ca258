// The parts of the CUDA device that every machine can test. conformance_test.cpp, which skips the
// device without a GPU, and cuda/ test the rest.
#include "device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/no_silent_skips.h"

namespace teraio::device {
namespace {

using ::testing::HasSubstr;

TEST(CudaDeviceTest, AGpuThatIsNotThereIsAReasonAndNoCrash) {
  const Result<CudaFacts> facts = inspect_cuda_device(1000);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(facts.status().message(), HasSubstr("cuda: "));
  const auto device = make_cuda_device({.ordinal = 1000, .budget_bytes = 1 << 20});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status(), facts.status());
}

TEST(CudaDeviceTest, AGpuTellsWhatItIs) {
  const Result<CudaFacts> facts = inspect_cuda_device(0);
  if (!facts.ok()) GTEST_SKIP() << testing::kNotApplicable << facts.status().message();
  EXPECT_FALSE(facts->model.empty());
  EXPECT_GT(facts->memory_bytes, 0);
  EXPECT_LE(facts->free_bytes, facts->memory_bytes);
}

}  // namespace
}  // namespace teraio::device
