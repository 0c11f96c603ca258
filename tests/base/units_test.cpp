// Sizes and times as people write them.
#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace teraio {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int64_t parsed(std::string_view text, int64_t whole_bytes = 0) {
  const Result<int64_t> size = parse_size(text, whole_bytes);
  EXPECT_TRUE(size.ok()) << size.status().message();
  return size.ok() ? *size : -1;
}

TEST(ParseSize, CountsBytesWithoutASuffix) {
  EXPECT_EQ(parsed("0"), 0);
  EXPECT_EQ(parsed("1200000000"), 1'200'000'000);
  EXPECT_EQ(parsed("512B"), 512);
}

TEST(ParseSize, TakesDecimalAndBinaryPrefixes) {
  const std::string prefixes = "kMGTP";
  int64_t decimal = 1;
  int64_t binary = 1;
  for (const char prefix : prefixes) {
    decimal *= 1000;
    binary *= 1024;
    EXPECT_EQ(parsed(std::string("3") + prefix), 3 * decimal) << prefix;
    EXPECT_EQ(parsed(std::string("3") + prefix + "B"), 3 * decimal) << prefix;
    EXPECT_EQ(parsed(std::string("3") + prefix + "iB"), 3 * binary) << prefix;
  }
  EXPECT_EQ(parsed("1KiB"), kKiB);
  EXPECT_EQ(parsed("1MiB"), kMiB);
  EXPECT_EQ(parsed("1GiB"), kGiB);
}

TEST(ParseSize, DoesNotCareAboutCaseAndSpaces) {
  EXPECT_EQ(parsed("2gib"), 2 * kGiB);
  EXPECT_EQ(parsed("2GIB"), 2 * kGiB);
  EXPECT_EQ(parsed("  1.5 GB "), 1'500'000'000);
}

TEST(ParseSize, RoundsAFractionDownToAByte) {
  EXPECT_EQ(parsed("1.9"), 1);
  EXPECT_EQ(parsed("0.9999kB"), 999);
  EXPECT_EQ(parsed(".5KiB"), 512);
}

TEST(ParseSize, TakesAShareOfAWhole) {
  EXPECT_EQ(parsed("40%", 1000), 400);
  EXPECT_EQ(parsed("33.3 %", 1000), 333);
  EXPECT_EQ(parsed("150%", 1000), 1500);
  EXPECT_EQ(parsed("2kB", 1000), 2000);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  const std::vector<std::string> texts = {
      "",        " ",      "GB",    "x",     "1.5XB", "-1GB", "-0.1",   "1e9",
      "1.5.2GB", "1 GB x", "1,5GB", "+1",    "0x10",  "inf",  "nan",    "1i",
      "1iB",     "1G iB",  "1GBB",  "1\tGB", "1EB",   "40%",  "40.0 %", "%",
  };
  for (const std::string& text : texts) {
    const Result<int64_t> size = parse_size(text);
    ASSERT_FALSE(size.ok()) << '"' << text << "\" gave " << *size;
    EXPECT_EQ(size.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(size.status().message(), HasSubstr('"' + text + '"'));
  }
}

TEST(ParseSize, RefusesMoreThanTwoToThe62) {
  constexpr int64_t kLargest = int64_t{1} << 62;
  EXPECT_EQ(parsed("4095.5 PiB"), kLargest - (int64_t{1} << 49));
  EXPECT_FALSE(parse_size("4096 PiB").ok());
  EXPECT_FALSE(parse_size("99999999PB").ok());
  EXPECT_FALSE(parse_size("4611686018427387904").ok());
  EXPECT_FALSE(parse_size("5000%", kLargest / 10).ok());
  EXPECT_FALSE(parse_size(std::string(400, '9')).ok());
}

TEST(ParseSize, OffersAShareOnlyWhereThereIsAWhole) {
  EXPECT_THAT(parse_size("much").status().message(), Not(HasSubstr("%")));
  EXPECT_THAT(parse_size("much", 1000).status().message(), HasSubstr("40%"));
  EXPECT_FALSE(parse_size("%", 1000).ok());
  EXPECT_FALSE(parse_size("120%%", 1000).ok());
}

TEST(FormatSize, HasThreeSignificantDigits) {
  const std::vector<std::pair<int64_t, std::string>> sizes = {
      {0, "0 B"},
      {1, "1 B"},
      {999, "999 B"},
      {1000, "1.00 kB"},
      {1234, "1.23 kB"},
      {12'345, "12.3 kB"},
      {123'456, "123 kB"},
      {1'500'000'000, "1.50 GB"},
      {3'210'000'000'000, "3.21 TB"},
      {7'000'000'000'000'000, "7.00 PB"},
  };
  for (const auto& [size_bytes, text] : sizes) EXPECT_EQ(format_size(size_bytes), text);
}

TEST(FormatSize, RoundsIntoTheNextStepWithoutAFourthDigit) {
  EXPECT_EQ(format_size(9'994), "9.99 kB");
  EXPECT_EQ(format_size(9'996), "10.0 kB");
  EXPECT_EQ(format_size(99'940), "99.9 kB");
  EXPECT_EQ(format_size(99'960), "100 kB");
  EXPECT_EQ(format_size(999'400), "999 kB");
  EXPECT_EQ(format_size(999'600), "1.00 MB");
}

TEST(FormatSize, StaysInPetabytes) {
  EXPECT_EQ(format_size(std::numeric_limits<int64_t>::max()), "9223 PB");
}

TEST(FormatSize, WritesADifferenceWithItsSign) {
  EXPECT_EQ(format_size(-12), "-12 B");
  EXPECT_EQ(format_size(-1'230), "-1.23 kB");
  EXPECT_EQ(format_size(-250'000'000), "-250 MB");
  EXPECT_EQ(format_size(std::numeric_limits<int64_t>::min()), "-9223 PB");
}

TEST(FormatSize, GivesWhatParseSizeReads) {
  for (int64_t size_bytes = 1; size_bytes < int64_t{1} << 60; size_bytes = size_bytes * 7 / 4 + 1) {
    const std::string text = format_size(size_bytes);
    const double ratio = static_cast<double>(parsed(text)) / static_cast<double>(size_bytes);
    EXPECT_NEAR(ratio, 1, 0.0051) << text << " of " << size_bytes;
  }
}

TEST(FormatDuration, ChoosesTheUnit) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(12), "12 ns");
  EXPECT_EQ(format_duration(850'000), "850 us");
  EXPECT_EQ(format_duration(12'000'000), "12.0 ms");
  EXPECT_EQ(format_duration(3'210'000'000), "3.21 s");
  EXPECT_EQ(format_duration(7'200'000'000'000), "7200.00 s");
}

TEST(FormatDuration, ChangesTheUnitAtAWholeOne) {
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(1'000), "1 us");
  EXPECT_EQ(format_duration(1'000'000), "1.0 ms");
  EXPECT_EQ(format_duration(1'000'000'000), "1.00 s");
}

TEST(AlignUp, GivesTheNextMultiple) {
  static_assert(align_up(0, 4096) == 0);
  for (const int64_t alignment_bytes : {int64_t{1}, int64_t{8}, int64_t{4096}, 2 * kMiB}) {
    for (const int64_t size_bytes :
         {int64_t{1}, alignment_bytes - 1, alignment_bytes, alignment_bytes + 1, 5 * kGiB + 3}) {
      const int64_t aligned_bytes = align_up(size_bytes, alignment_bytes);
      EXPECT_EQ(aligned_bytes % alignment_bytes, 0);
      EXPECT_GE(aligned_bytes, size_bytes);
      EXPECT_LT(aligned_bytes - size_bytes, alignment_bytes);
    }
  }
}

}  // namespace
}  // namespace teraio
