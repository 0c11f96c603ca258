// Reading and writing hardware files, and the sums over drives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "hardware/hardware.h"
#include "testing/test_files.h"

namespace teraio::hardware {
namespace {

using ::testing::HasSubstr;
using testing::test_data;

TEST(HardwareFile, RealFilesComeBackTheSame) {
  for (const char* name : {"a100_g10", "h100_mixed", "h100_p385", "h100_ssd"}) {
    const Result<Hardware> hardware =
        read_hardware(test_data("traces") / (std::string(name) + ".json"));
    ASSERT_TRUE(hardware.ok()) << hardware.status().message();
    EXPECT_EQ(hardware->name, name);
    for (const char* ending : {".json", ".json.gz"}) {
      const auto path = std::filesystem::path(::testing::TempDir()) / (std::string(name) + ending);
      ASSERT_TRUE(write_hardware(*hardware, path).ok());
      const Result<Hardware> copy = read_hardware(path);
      ASSERT_TRUE(copy.ok()) << copy.status().message();
      EXPECT_EQ(*copy, *hardware);
      std::filesystem::remove(path);
    }
  }
}

TEST(HardwareFile, BadFilesAreRefusedByFieldAndExpectation) {
  const std::pair<const char*, const char*> cases[] = {
      {"no_drives.json", "drives: expected this field"},
      {"zero_rate.json", "drives[0]: expected rates"},
      {"duplex_3.json", "drives[0].duplex: expected 1 to 2"},
      {"duplex_text.json", "drives[0].duplex: expected a number, found \"2\""},
      {"negative_latency.json", "request_latency_ns: expected an integer that is not negative"},
      {"host_missing_field.json", "host.capacity_bytes: expected this field"},
      {"trace_instead.json", "format: expected \"teraio-hardware/1\""}};
  for (const auto& [name, expected] : cases) {
    const Result<Hardware> hardware = read_hardware(test_data("corpus/hardware") / name);
    ASSERT_FALSE(hardware.ok()) << name;
    EXPECT_THAT(hardware.status().message(), HasSubstr(name));
    EXPECT_THAT(hardware.status().message(), HasSubstr(expected));
  }
  EXPECT_TRUE(read_hardware(test_data("corpus/hardware/good.json")).ok());
}

TEST(Hardware, TheSsdTierIsTheSumOfTheDrives) {
  Hardware hardware;
  hardware.drives = {{"a", 10, {300, 100}, 1.0, {}}, {"b", 20, {100, 100}, 2.0, {}}};
  EXPECT_EQ(ssd_rates(hardware), (Rates{400, 200}));
  EXPECT_EQ(ssd_capacity_bytes(hardware), 30);
  EXPECT_NEAR(ssd_duplex(hardware), (400 * 1.0 + 200 * 2.0) / 600, 1e-12);
  EXPECT_EQ(ssd_rates(Hardware()), Rates());
}

TEST(Hardware, TheDriveThatWearsOutFirstCounts) {
  Hardware hardware;
  hardware.drives = {{"a", 10, {100, 300}, 1.0, 6'000}, {"b", 20, {100, 100}, 1.0, 1'500}};
  EXPECT_DOUBLE_EQ(*writes_until_worn(hardware, 100), 60);  // b takes 25 bytes each time
  hardware.drives[0].rated_bytes_written.reset();
  EXPECT_DOUBLE_EQ(*writes_until_worn(hardware, 100), 60);
  EXPECT_FALSE(writes_until_worn(hardware, 0));
  hardware.drives[1].rated_bytes_written.reset();
  EXPECT_FALSE(writes_until_worn(hardware, 100));
}

}  // namespace
}  // namespace teraio::hardware
