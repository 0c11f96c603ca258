// Extents without a store: checksums, and the bytes that a layout reserves.
#include "storage/extent_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"

namespace teraio::storage {
namespace {

using ::testing::HasSubstr;

class ExtentTableTest : public ::testing::Test {
 protected:
  ExtentTable table_{{8 * kMiB, 8 * kMiB}, {.store_name = "test", .chunk_bytes = kMiB}};
};

TEST_F(ExtentTableTest, RecordsHaveAChecksumPerChunkWhenAsked) {
  EXPECT_TRUE(table_.find(*table_.reserve(3 * kMiB))->checksums.empty());
  ExtentTable checked({8 * kMiB}, {.store_name = "test", .chunk_bytes = kMiB, .checksum = true});
  const ExtentRecord* record = checked.find(*checked.reserve(2 * kMiB + 1));
  ASSERT_EQ(record->checksums.size(), 1u);
  EXPECT_EQ(record->checksums[0].size(), 3u);
}

TEST_F(ExtentTableTest, AFailureTellsWhatIsFreeAndWhatThePlanKeeps) {
  ASSERT_TRUE(table_.lay_out(std::vector<PlannedCopy>{{10 * kMiB, 0, 10}}).ok());
  const Status status = table_.reserve(12 * kMiB).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(status.message(), HasSubstr("the test tier has no room for 12.6 MB"));
  EXPECT_THAT(status.message(), HasSubstr("10.5 MB are kept for the plan"));
  EXPECT_EQ(table_.reserve(-1).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace teraio::storage
