#include "testing/no_silent_skips.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace teraio::testing {
namespace {

// Returns the message of the skip, or "" if the test was not skipped.
std::string reason(const ::testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.skipped()) continue;
    // Google Test starts the message with the line "Skipped".
    const std::string_view message = part.message();
    return std::string(message.substr(message.find('\n') + 1));
  }
  return "";
}

class SkipsAreFailures final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Skipped()) return;
    const std::string why = reason(*test.result());
    if (why.rfind(kNotApplicable, 0) == 0) return;
    ADD_FAILURE() << "skipped, which TERAIO_REQUIRE_ALL=1 does not allow: " << why;
  }
};

}  // namespace

void fail_silent_skips() {
  const char* wanted = std::getenv("TERAIO_REQUIRE_ALL");
  if (wanted == nullptr || std::string_view(wanted) != "1") return;
  ::testing::UnitTest::GetInstance()->listeners().Append(new SkipsAreFailures);
}

}  // namespace teraio::testing
