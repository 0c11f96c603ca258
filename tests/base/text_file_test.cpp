// Reading and replacing whole files, plain and compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>

#include "base/json_file.h"
#include "testing/child_process.h"
#include "testing/sanitized.h"
#include "testing/scratch_directory.h"

namespace teraio {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TextFile : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return scratch_.path() / name; }

  static std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  static void put(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  void write(const std::filesystem::path& path, std::string_view text) {
    const Status status = write_text_file(path, text);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  static std::string read(const std::filesystem::path& path) {
    const Result<std::string> text = read_text_file(path);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? *text : "";
  }

  unsigned mode_of(const std::string& name) const {
    struct stat facts = {};
    EXPECT_EQ(stat(path(name).c_str(), &facts), 0);
    return facts.st_mode & 07777;
  }

  size_t files_here() const {
    const std::filesystem::directory_iterator files(scratch_.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  // Text that does not repeat, so that reading it takes several steps and compressing it some work.
  static std::string long_text() {
    std::string text;
    for (uint64_t i = 0; text.size() < 1'500'000; ++i) text += std::to_string(i * i) + '\n';
    return text;
  }

  testing::ScratchDirectory scratch_;
};

TEST_F(TextFile, GivesBackWhatWasWritten) {
  for (const std::string name : {"a.json", "a.json.gz"}) {
    for (const std::string& text : {std::string(), std::string("{}\n"), long_text()}) {
      write(path(name), text);
      EXPECT_EQ(read(path(name)), text) << name << " of " << text.size() << " bytes";
    }
  }
}

TEST_F(TextFile, KeepsZeroBytesAndCarriageReturns) {
  const std::string text("a\0b\r\nc", 6);
  write(path("a"), text);
  EXPECT_EQ(bytes_of(path("a")), text);
  EXPECT_EQ(read(path("a")), text);
}

TEST_F(TextFile, IsCompressedWhenItsNameSaysSo) {
  const std::string text = long_text();
  write(path("a.json.gz"), text);
  EXPECT_THAT(bytes_of(path("a.json.gz")), StartsWith("\x1f\x8b"));
  EXPECT_LT(std::filesystem::file_size(path("a.json.gz")), text.size() / 2);
  write(path("a.json"), text);
  EXPECT_EQ(std::filesystem::file_size(path("a.json")), text.size());
}

TEST_F(TextFile, ReadsCompressedBytesUnderAnyName) {
  write(path("a.gz"), "text");
  std::filesystem::rename(path("a.gz"), path("a.json"));
  EXPECT_EQ(read(path("a.json")), "text");
}

TEST_F(TextFile, HasTheSameBytesForTheSameText) {
  write(path("a.gz"), "text");
  write(path("b.gz"), "text");
  EXPECT_EQ(bytes_of(path("a.gz")), bytes_of(path("b.gz")));
}

TEST_F(TextFile, HasTheModeThatTheUmaskAllows) {
  const mode_t before = umask(0027);
  write(path("a"), "text");
  umask(before);
  EXPECT_EQ(mode_of("a"), 0640U);
}

TEST_F(TextFile, KeepsTheModeOfTheFileThatItReplaces) {
  put(path("a"), "old");
  ASSERT_EQ(chmod(path("a").c_str(), 0604), 0);
  write(path("a"), "new");
  EXPECT_EQ(mode_of("a"), 0604U);
}

TEST_F(TextFile, IsReplacedAsAWhole) {
  write(path("a"), "old");
  std::ifstream reader(path("a"));
  write(path("a"), "new");
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
  EXPECT_EQ(read(path("a")), "new");
  EXPECT_EQ(files_here(), 1U);
}

TEST_F(TextFile, BehindALinkIsReplacedAndTheLinkStays) {
  std::filesystem::create_directory(path("folder"));
  put(path("folder/file"), "old");
  std::filesystem::create_symlink("folder/file", path("link"));
  std::filesystem::create_symlink("link", path("link to the link"));
  write(path("link to the link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link to the link")));
  EXPECT_EQ(bytes_of(path("folder/file")), "new");
}

TEST_F(TextFile, BehindALinkIsMadeWhereItIsMissing) {
  std::filesystem::create_symlink("file", path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(bytes_of(path("file")), "new");
}

TEST_F(TextFile, ThatIsAPipeIsWrittenTo) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::future<std::string> received =
      std::async(std::launch::async, [&] { return bytes_of(path("pipe")); });
  write(path("pipe"), "through the pipe");
  EXPECT_EQ(received.get(), "through the pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(TextFile, ThatIsMissingIsNotFound) {
  const Status status = read_text_file(path("missing.json")).status();
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(StartsWith(path("missing.json").string()),
                                      HasSubstr("cannot open"), EndsWith(strerror(ENOENT))));
}

TEST_F(TextFile, CannotBeReadFromAFolder) {
  const Status status = read_text_file(scratch_.path()).status();
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  EXPECT_THAT(status.message(), EndsWith(strerror(EISDIR)));
}

TEST_F(TextFile, ThatIsCutOffIsRefused) {
  write(path("a.gz"), long_text());
  const std::string whole = bytes_of(path("a.gz"));
  put(path("a.gz"), std::string_view(whole).substr(0, whole.size() / 2));
  const Status status = read_text_file(path("a.gz")).status();
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("expected whole gzip data"));
}

TEST_F(TextFile, ThatIsDamagedIsRefused) {
  write(path("a.gz"), long_text());
  std::string bytes = bytes_of(path("a.gz"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  put(path("a.gz"), bytes);
  EXPECT_EQ(read_text_file(path("a.gz")).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(TextFile, ThatInflatesBeyondMeasureIsRefused) {
  write(path("a.gz"), std::string(kInflatedBytesFree + kInflatedBytesFree / 4, ' '));
  const Status status = read_text_file(path("a.gz")).status();
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(StartsWith(path("a.gz").string()), HasSubstr("expected at most 50 times")));
}

TEST_F(TextFile, OfAnySizeInflatesAsFarAsTextDoes) {
  std::string text(kInflatedBytesFree, ' ');
  while (text.size() < size_t{80} << 20) text += long_text();
  write(path("a.gz"), text);
  EXPECT_EQ(read(path("a.gz")), text);
}

TEST_F(TextFile, ThatDoesNotFitIntoTheMemoryIsRefused) {
  if (testing::kIsSanitized) GTEST_SKIP() << "not applicable: a sanitizer reserves address space";
  std::ofstream(path("a")) << "[";
  std::filesystem::resize_file(path("a"), size_t{512} << 20);
  const auto refuses = [&] {
    const rlimit most = {size_t{256} << 20, size_t{256} << 20};
    setrlimit(RLIMIT_AS, &most);
    const Status text = read_text_file(path("a")).status();
    const Status json = JsonDocument(path("a"), "format").status();
    const auto is_told = [&](const Status& status) {
      return status.code() == ErrorCode::kOutOfMemory &&
             status.message().starts_with(path("a").string() + ": ");
    };
    return is_told(text) && is_told(json) ? 0 : 2;
  };
  EXPECT_EQ(testing::exit_code_in_child(refuses), 0);
}

TEST_F(TextFile, CannotBeMadeInAFolderThatIsMissing) {
  const Status status = write_text_file(path("missing/a"), "text");
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(status.message(), StartsWith(path("missing/a").string()));
}

TEST_F(TextFile, CannotReplaceAFolderAndLeavesNothingBeside) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(write_text_file(path("folder"), "text").code(), ErrorCode::kIoError);
  EXPECT_TRUE(std::filesystem::is_directory(path("folder")));
  EXPECT_EQ(files_here(), 1U);
}

TEST_F(TextFile, SaysThatTheDriveIsFull) {
  const Status status = write_text_file("/dev/full", "text");
  EXPECT_EQ(status.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(status.message(), StartsWith("/dev/full: cannot write"));
}

}  // namespace
}  // namespace teraio
