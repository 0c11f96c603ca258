// Reading and writing traces: whole files come back the same, broken ones name file and field.
#include "trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/json_file.h"
#include "testing/test_files.h"

namespace teraio::trace {
namespace {

using ::testing::HasSubstr;
using testing::test_data;

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / name;
}

class RealTraces : public ::testing::TestWithParam<const char*> {};

TEST_P(RealTraces, ComeBackTheSame) {
  const Result<Trace> trace = read_trace(test_data("traces") / GetParam());
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  for (const char* name : {"copy.json", "copy.json.gz"}) {
    const std::filesystem::path path = scratch(std::string(GetParam()) + name);
    ASSERT_TRUE(write_trace(*trace, path).ok());
    const Result<Trace> copy = read_trace(path);
    ASSERT_TRUE(copy.ok()) << copy.status().message();
    EXPECT_EQ(*copy, *trace);
    std::filesystem::remove(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RealTraces,
                         ::testing::Values("l8.json.gz", "gr8.json.gz", "l70.json.gz",
                                           "VIT-1280.json.gz", "Inceptionv3-1536.json.gz"));

struct BadFile {
  const char* name;
  const char* expected;  // part of the message
};

class BadTraces : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadTraces, AreRefusedByFieldAndExpectation) {
  const Result<Trace> trace = read_trace(test_data("corpus/trace") / GetParam().name);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(trace.status().message(), HasSubstr(GetParam().name));
  EXPECT_THAT(trace.status().message(), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Corpus, BadTraces,
    ::testing::Values(
        BadFile{"empty.json", "expected JSON"}, BadFile{"not_json.json", "expected JSON"},
        BadFile{"deep.json", "expected JSON"}, BadFile{"array.json", "expected an object"},
        BadFile{"unknown_format.json", "format: expected \"teraio-trace/1\""},
        BadFile{"no_format.json", "format: expected this field"},
        BadFile{"no_ops.json", "ops: expected this field"},
        BadFile{"ops_object.json", "ops: expected an array"},
        BadFile{"negative_bytes.json",
                "tensors[1].bytes: expected an integer that is not negative"},
        BadFile{"fraction.json", "tensors[1].bytes: expected an integer"},
        BadFile{"too_large.json", "tensors[1].bytes: expected an integer"},
        BadFile{"huge_number.json", "expected JSON"},
        BadFile{"sum_overflow.json", "tensors[1].bytes: expected a size"},
        BadFile{"string_id.json", "tensors[0].id: expected an integer"},
        BadFile{"twice_id.json", "tensors[1].id: expected an id that no other tensor has"},
        BadFile{"unknown_id.json", "ops[0].reads[0]: expected the id of a tensor, found 8"},
        BadFile{"twice_in_op.json", "ops[0].writes[0]: expected a tensor at most once"},
        BadFile{"freed_twice.json", "ops[1].reads[0]: expected a tensor that is alive"},
        BadFile{"frees_persistent.json", "ops[1].frees[1]: expected a tensor that is not"},
        BadFile{"bad_kind.json", "tensors[0].kind: expected parameter"},
        BadFile{"null_op.json", "ops[2]: expected an object"},
        BadFile{"bad_utf8.json", "expected JSON"},
        BadFile{"truncated.json.gz", "expected whole gzip data"}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(TraceFile, ExtraFieldsAreAccepted) {
  EXPECT_TRUE(read_trace(test_data("corpus/trace/good.json.gz")).ok());
}

TEST(TraceFile, TokensOfAStepComeBack) {
  Trace trace = *read_trace(test_data("corpus/trace/good.json"));
  EXPECT_FALSE(trace.tokens_per_step);
  trace.tokens_per_step = 4096;
  const std::filesystem::path path = scratch("tokens.json");
  ASSERT_TRUE(write_trace(trace, path).ok());
  EXPECT_EQ(*read_trace(path), trace);
  trace.tokens_per_step = 0;
  EXPECT_THAT(write_trace(trace, path).message(), HasSubstr("tokens_per_step: expected"));
}

TEST(TraceFile, AnInvalidTraceIsNotWritten) {
  Trace trace{"t", "modelled", {{0, -1, true, TensorKind::kOther, ""}}, {}};
  EXPECT_THAT(write_trace(trace, scratch("t.json")).message(), HasSubstr("tensors[0].bytes"));
}

TEST(Replayable, IsWrittenWhereItIsTrue) {
  Result<Trace> trace = read_trace(test_data("corpus/trace/good.json"));
  ASSERT_TRUE(trace.ok());
  EXPECT_FALSE(trace->ops[0].replayable);
  const std::filesystem::path path = scratch("replayable.json");
  ASSERT_TRUE(write_trace(*trace, path).ok());
  EXPECT_EQ(read_text_file(path)->find("replayable"), std::string::npos);
  trace->ops[1].replayable = true;
  ASSERT_TRUE(write_trace(*trace, path).ok());
  const Result<Trace> copy = read_trace(path);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(*copy, *trace);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace teraio::trace
