// Walking a document: values, the first failure, and where it says that it happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/json_file.h"
#include "testing/scratch_directory.h"

namespace teraio {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Json : public ::testing::Test {
 protected:
  // A document of format "test/1" whose other fields are `fields`.
  JsonDocument& document_of(const std::string& fields) {
    return document_of_text(R"({"format": "test/1", )" + fields + "}");
  }

  JsonDocument& document_of_text(const std::string& text) {
    std::ofstream(path_) << text;
    document_ = std::make_unique<JsonDocument>(path_, "test/1");
    return *document_;
  }

  // The failure without the file's name, which it begins with; "" without one.
  std::string problem() const {
    const std::string file = path_.string() + ": ";
    const std::string& message = document_->status().message();
    if (document_->status().ok()) return "";
    EXPECT_THAT(message, StartsWith(file));
    return message.substr(file.size());
  }

  testing::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_.path() / "a.json";
  std::unique_ptr<JsonDocument> document_;
};

TEST_F(Json, GivesValuesOfEveryKind) {
  const JsonNode& root =
      document_of(R"("n": 7, "x": -2.5, "yes": true, "name": "A\u00e9", "list": [1, 2])").root();
  EXPECT_EQ(root["n"].positive_integer(), 7);
  EXPECT_EQ(root["n"].number(), 7.0);
  EXPECT_EQ(root["x"].number(), -2.5);
  EXPECT_TRUE(root["yes"].boolean());
  EXPECT_EQ(root["name"].text(), "A\xc3\xa9");
  const JsonNode list = root["list"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list.element(1).non_negative_integer(), 2);
  EXPECT_EQ(problem(), "");
}

TEST_F(Json, TakesIntegersInAnyFormUpToTheLargest) {
  const JsonNode& root =
      document_of(
          R"("zero": 0, "largest": 9223372036854775807, "one": 1, "exponent": 25e9, "point": 2.0)")
          .root();
  EXPECT_EQ(root["zero"].non_negative_integer(), 0);
  EXPECT_EQ(root["largest"].non_negative_integer(), INT64_MAX);
  EXPECT_EQ(root["one"].positive_integer(), 1);
  EXPECT_EQ(root["exponent"].positive_integer(), 25'000'000'000);
  EXPECT_EQ(root["point"].positive_integer(), 2);
  EXPECT_EQ(problem(), "");
}

TEST_F(Json, RefusesWhatIsNoSuchInteger) {
  for (const std::string value : {"-1", "1.5", "25e-1", "1e300", "9007199254740994.0",
                                  "9223372036854775808", "\"7\"", "true", "null"}) {
    EXPECT_EQ(document_of("\"n\": " + value).root()["n"].non_negative_integer(), 0);
    EXPECT_THAT(problem(), StartsWith("n: expected an integer that is not negative, found "))
        << value;
  }
  EXPECT_EQ(document_of(R"("n": 0)").root()["n"].positive_integer(), 1);
  EXPECT_EQ(problem(), "n: expected a positive integer, found 0");
}

TEST_F(Json, RefusesOtherTypesThanAreAskedFor) {
  EXPECT_EQ(document_of(R"("x": "2.5")").root()["x"].number(), 0);
  EXPECT_EQ(problem(), "x: expected a number, found \"2.5\"");
  EXPECT_FALSE(document_of(R"("x": 1)").root()["x"].boolean());
  EXPECT_EQ(problem(), "x: expected true or false, found 1");
  EXPECT_EQ(document_of(R"("x": [1])").root()["x"].text(), "");
  EXPECT_EQ(problem(), "x: expected a string, found an array");
  EXPECT_EQ(document_of(R"("x": {"size": 3})").root()["x"].size(), 0U);
  EXPECT_EQ(problem(), "x: expected an array, found an object");
}

TEST_F(Json, NamesTheWayToTheField) {
  const JsonNode& root = document_of(R"("ops": [{}, {"reads": [1, "two"]}])").root();
  const JsonNode ops = root["ops"];
  const JsonNode op = ops.element(1);
  const JsonNode reads = op["reads"];
  EXPECT_EQ(reads.element(1).non_negative_integer(), 0);
  EXPECT_EQ(problem(), "ops[1].reads[1]: expected an integer that is not negative, found \"two\"");
}

TEST_F(Json, SaysWhichFieldIsMissing) {
  const JsonNode& root = document_of(R"("host": {"a": 1})").root();
  const JsonNode host = root["host"];
  EXPECT_EQ(host["b"].text(), "");
  EXPECT_EQ(problem(), "host.b: expected this field, found none");
}

TEST_F(Json, FindsAFieldThatMayBeMissing) {
  const JsonNode& root = document_of(R"("a": 1)").root();
  EXPECT_TRUE(root.find("a").exists());
  EXPECT_FALSE(root.find("b").exists());
  const JsonNode a = root["a"];
  EXPECT_FALSE(a.find("of a number").exists());
  EXPECT_EQ(problem(), "");
}

TEST_F(Json, HasNoFieldsInWhatIsNoObject) {
  const JsonNode& root = document_of(R"("a": [1])").root();
  const JsonNode a = root["a"];
  EXPECT_FALSE(a["b"].exists());
  EXPECT_EQ(problem(), "a: expected an object, found an array");
}

TEST_F(Json, KeepsTheFirstFailure) {
  JsonDocument& document = document_of(R"("a": 1, "list": [1, 2])");
  const JsonNode& root = document.root();
  EXPECT_EQ(root["a"].text(), "");
  const std::string first = document.status().message();
  EXPECT_EQ(root["missing"].positive_integer(), 1);
  const JsonNode list = root["list"];
  EXPECT_EQ(list.size(), 0U) << "loops end after a failure";
  list.fail("a rule of the caller's is broken");
  EXPECT_EQ(document.status().message(), first);
  EXPECT_EQ(document.status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(Json, RecordsAFailureThatTheCallerFinds) {
  const JsonNode& root = document_of(R"("ops": [{"id": 3}])").root();
  const JsonNode ops = root["ops"];
  const JsonNode op = ops.element(0);
  op["id"].fail("no tensor has this id");
  EXPECT_EQ(problem(), "ops[0].id: no tensor has this id");
  document_of(R"("a": 1)").root().fail("of all");
  EXPECT_EQ(problem(), "of all");
}

TEST_F(Json, ShowsTheBeginningOfALongValue) {
  document_of("\"n\": \"" + std::string(1000, 'x') + '"').root()["n"].number();
  EXPECT_EQ(problem(), "n: expected a number, found \"" + std::string(59, 'x'));
}

TEST_F(Json, RefusesAnotherFormat) {
  document_of_text(R"({"format": "test/2"})");
  EXPECT_EQ(problem(), R"(format: expected "test/1", found "test/2")");
  document_of_text(R"({"format": 1})");
  EXPECT_EQ(problem(), "format: expected a string, found 1");
  document_of_text(R"({})");
  EXPECT_EQ(problem(), "format: expected this field, found none");
  document_of_text("[1]");
  EXPECT_EQ(problem(), "expected an object, found an array");
}

TEST_F(Json, RefusesTextThatIsNoJson) {
  for (const std::string text :
       {"", "{", "{} {}", "{\"a\": nan}", "{\"a\": 1e999}", "{\"a\": \"\xff\"}", "{'a': 1}"}) {
    document_of_text(text);
    EXPECT_THAT(problem(), StartsWith("expected JSON: ")) << text;
    EXPECT_EQ(document_->root()["a"].text(), "") << "what is there is neutral";
  }
}

TEST_F(Json, SaysThatTheFileIsMissing) {
  const JsonDocument document(scratch_.path() / "missing.json", "test/1");
  EXPECT_EQ(document.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(document.status().message(), HasSubstr("missing.json: cannot open"));
  EXPECT_EQ(document.root()["name"].text(), "");
}

TEST(JsonText, HasAnElementPerLine) {
  const nlohmann::ordered_json value = {
      {"format", "test/1"}, {"empty", nlohmann::ordered_json::array()}, {"ops", {1, {{"b", 2}}}}};
  EXPECT_EQ(
      to_json_text(value),
      "{\n \"format\": \"test/1\",\n \"empty\": [],\n \"ops\": [\n  1,\n  {\"b\":2}\n ]\n}\n");
}

TEST(JsonText, ReadsBackAsTheSameValue) {
  const nlohmann::ordered_json value = {
      {"z", 1}, {"a", {{"deep", {1, 2}}}}, {"list", {"x", nullptr, 2.5, true}}, {"text", "\"\n"}};
  EXPECT_EQ(nlohmann::ordered_json::parse(to_json_text(value)), value);
}

TEST(JsonText, ReplacesBytesThatAreNoText) {
  EXPECT_EQ(to_json_text({{"name", "a\xff"}}), "{\n \"name\": \"a\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace teraio
