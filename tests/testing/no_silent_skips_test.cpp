// Where every test is wanted, a skipped one fails and says why; elsewhere it does not.
#include "testing/no_silent_skips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace teraio::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Run by the tests below, in a process of its own.
TEST(ACase, DISABLED_ThatIsSkipped) { GTEST_SKIP() << "this machine has no tape drive"; }
TEST(ACase, DISABLED_ThatDoesNotApply) { GTEST_SKIP() << kNotApplicable << "tape is extinct"; }

struct Outcome {
  int exit_code;
  std::string output;
};

Outcome run_the_case(const std::string& name, const std::string& environment) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX -u GTEST_FILTER " +
                              environment + " " + program +
                              " --gtest_also_run_disabled_tests --gtest_filter='" + name + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome = {0, ""};
  std::array<char, 256> part;
  while (fgets(part.data(), part.size(), pipe) != nullptr) outcome.output += part.data();
  outcome.exit_code = pclose(pipe);
  return outcome;
}

TEST(NoSilentSkips, ASkippedTestFailsWhereEveryTestIsWanted) {
  const Outcome outcome = run_the_case("*ThatIsSkipped", "TERAIO_REQUIRE_ALL=1");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("does not allow: this machine has no tape drive"),
                                    HasSubstr("[  FAILED  ] ACase.DISABLED_ThatIsSkipped")));
}

TEST(NoSilentSkips, ASkippedTestDoesNotFailElsewhere) {
  for (const char* environment : {"-u TERAIO_REQUIRE_ALL", "TERAIO_REQUIRE_ALL=0"}) {
    const Outcome outcome = run_the_case("*ThatIsSkipped", environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("[  SKIPPED ]"), Not(HasSubstr("[  FAILED  ]"))));
  }
}

TEST(NoSilentSkips, ATestThatDoesNotApplyFailsNowhere) {
  const Outcome outcome = run_the_case("*ThatDoesNotApply", "TERAIO_REQUIRE_ALL=1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("[  SKIPPED ] 1 test"));
}

}  // namespace
}  // namespace teraio::testing
