// TERAIO_CHECK: broken invariants throw, in this build as in every other.
#include "base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace teraio {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of_a_broken_check() {
  try {
    TERAIO_CHECK(1 + 1 == 3);
  } catch (const InvariantError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Check, NamesTheExpressionAndThePlace) {
  EXPECT_THAT(message_of_a_broken_check(),
              AllOf(HasSubstr("1 + 1 == 3"), HasSubstr("check_test.cpp:")));
}

TEST(Check, EvaluatesItsExpressionOnce) {
  int evaluations = 0;
  TERAIO_CHECK(++evaluations > 0);
  EXPECT_EQ(evaluations, 1);
  EXPECT_THROW(TERAIO_CHECK(++evaluations < 0), InvariantError);
  EXPECT_EQ(evaluations, 2);
}

}  // namespace
}  // namespace teraio
