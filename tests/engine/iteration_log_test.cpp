#include "engine/iteration_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "device/cpu_device.h"

namespace teraio::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IterationLogTest, KeepsTheNewestIterationsUnderTheirIndices) {
  const auto device = device::make_cpu_device(kMiB);
  ASSERT_TRUE(device.ok());
  EngineOptions options;
  options.device = device->get();
  IterationLog log(options, 3);
  const auto op_counts_from = [&](size_t first) {
    std::vector<int64_t> counts;
    for (const IterationRecord& record : log.iterations(first)) counts.push_back(record.op_count);
    return counts;
  };
  for (int64_t i = 0; i < 3; ++i) log.end_iteration(0, {}, i, 0, IterationRecord::Mode::kOnDemand);
  EXPECT_THAT(op_counts_from(1), ElementsAre(1, 2));
  for (int64_t i = 3; i < 5; ++i) log.end_iteration(0, {}, i, 0, IterationRecord::Mode::kOnDemand);
  EXPECT_THAT(op_counts_from(0), ElementsAre(2, 3, 4));
  EXPECT_THAT(op_counts_from(3), ElementsAre(3, 4));
  EXPECT_THAT(op_counts_from(5), IsEmpty());
  EXPECT_THAT(op_counts_from(50), IsEmpty());
  log.join(std::vector<int64_t>{0, 2, 1});
  EXPECT_THAT(op_counts_from(0), ElementsAre(2, 3 + 4));
  EXPECT_EQ(log.iteration_count(), 4);
  log.join(std::vector<int64_t>{2});
  log.end_iteration(0, {}, 5, 0, IterationRecord::Mode::kOnDemand);
  EXPECT_THAT(op_counts_from(0), ElementsAre(2 + 3 + 4 + 5));
}

}  // namespace
}  // namespace teraio::engine
