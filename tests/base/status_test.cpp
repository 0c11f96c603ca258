// How a failure travels: Status, Result, and leaving a function with one.
#include "base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/log.h"

namespace teraio {
namespace {

using ::testing::ElementsAre;

const std::vector<ErrorCode> kFailures = {
    ErrorCode::kInvalidArgument, ErrorCode::kNotFound,  ErrorCode::kOutOfMemory,
    ErrorCode::kOutOfSpace,      ErrorCode::kIoError,   ErrorCode::kCorrupted,
    ErrorCode::kUnsupported,     ErrorCode::kCancelled, ErrorCode::kInterrupted,
    ErrorCode::kInternal,
};

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names = {to_string(ErrorCode::kOk)};
  for (const ErrorCode code : kFailures) names.insert(to_string(code));
  EXPECT_EQ(names.size(), kFailures.size() + 1);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(to_string(static_cast<ErrorCode>(200)), "unknown");
}

TEST(Status, ContextStandsBeforeTheMessageAndKeepsTheCode) {
  const Status inner(ErrorCode::kIoError, "read failed");
  const Status outer = inner.with_context("drive 2").with_context("tensor 7");
  EXPECT_EQ(outer, Status(ErrorCode::kIoError, "tensor 7: drive 2: read failed"));
  EXPECT_EQ(inner.message(), "read failed");
}

TEST(Status, DetailsAddUpAndStayWithContext) {
  const Status inner = Status(ErrorCode::kIoError, "read failed").with_details({"offset: 7"});
  const Status outer = inner.with_context("drive 2").with_details({"tensor: 3", "tier: ssd"});
  EXPECT_THAT(outer.details(), ElementsAre("offset: 7", "tensor: 3", "tier: ssd"));
  EXPECT_THAT(inner.details(), ElementsAre("offset: 7"));
  EXPECT_EQ(outer.message(), "drive 2: read failed");
}

TEST(Status, DetailsAreToldToVerboseProcessesOnly) {
  const Status status = Status(ErrorCode::kIoError, "read failed").with_details({"a: 1", "b: 2"});
  EXPECT_EQ(full_text(status), "read failed");
  set_verbose(true);
  EXPECT_EQ(full_text(status), "read failed\n  a: 1\n  b: 2");
  EXPECT_EQ(full_text(Status(ErrorCode::kIoError, "read failed")), "read failed");
  set_verbose(false);
  EXPECT_EQ(full_text(status), "read failed");
}

TEST(Result, ValueOfAFailureThrowsAndIsNotRead) {
  const Result<int> result = Status(ErrorCode::kOutOfSpace, "the drive is full");
  EXPECT_THROW(result.value(), std::bad_variant_access);
}

class Caller {
 public:
  Status call(const Status& status) {
    TERAIO_RETURN_IF_ERROR(next(status));
    has_gone_on = true;
    return Status();
  }

  Result<int> call_for_a_number(const Status& status) {
    TERAIO_RETURN_IF_ERROR(next(status));
    return 7;
  }

  int evaluations = 0;
  bool has_gone_on = false;

 private:
  Status next(const Status& status) {
    ++evaluations;
    return status;
  }
};

TEST(ErrnoName, IsThatOfTheManual) {
  EXPECT_EQ(errno_name(EIO), "EIO");
  EXPECT_EQ(errno_name(ENOSPC), "ENOSPC");
  EXPECT_EQ(errno_name(5030), "errno 5030");
}

TEST(ErrnoText, SaysWordsAndNumber) {
  EXPECT_EQ(errno_text(EIO), "Input/output error (errno 5)");
  EXPECT_EQ(errno_text(5030), "Unknown error 5030 (errno 5030)");
}

TEST(ReturnIfError, GoesOnAfterSuccess) {
  Caller caller;
  EXPECT_TRUE(caller.call(Status()).ok());
  EXPECT_TRUE(caller.has_gone_on);
  EXPECT_EQ(caller.evaluations, 1);
}

TEST(ReturnIfError, LeavesWithTheFailureAsItIs) {
  const Status failure(ErrorCode::kCorrupted, "other bytes than were written");
  Caller caller;
  EXPECT_EQ(caller.call(failure), failure);
  EXPECT_FALSE(caller.has_gone_on);
  EXPECT_EQ(caller.evaluations, 1);
}

TEST(ReturnIfError, LeavesAFunctionThatReturnsAResult) {
  const Status failure(ErrorCode::kCancelled, "withdrawn");
  EXPECT_EQ(Caller().call_for_a_number(failure).status(), failure);
  EXPECT_EQ(Caller().call_for_a_number(Status()).value(), 7);
}

}  // namespace
}  // namespace teraio
