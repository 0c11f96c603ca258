#include "io/extent_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/units.h"
#include "testing/scratch_directory.h"

namespace teraio::io {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kExtentFileBytes = 8 * kMiB;

int64_t size_of(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return info.st_size;
}

class ExtentFileTest : public ::testing::Test {
 protected:
  ExtentFile create(bool keeps_name = false) {
    auto file = ExtentFile::create(directory_.path(),
                                   {.size_bytes = kExtentFileBytes, .keeps_name = keeps_name});
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : ExtentFile();
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }

  const testing::ScratchDirectory directory_;
};

TEST_F(ExtentFileTest, AForkedChildDoesNotKeepTheRoom) {
  ExtentFile file = create();
  const int fd = dup(file.fd());  // as a child would have it
  ASSERT_EQ(size_of(fd), kExtentFileBytes);
  file = ExtentFile();
  EXPECT_EQ(size_of(fd), 0);
  close(fd);
}

TEST_F(ExtentFileTest, AForkedChildThatEndsLeavesTheBytes) {
  ExtentFile file = create();
  const pid_t child = fork();
  if (child == 0) {
    file = ExtentFile();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(size_of(file.fd()), kExtentFileBytes);
}

TEST_F(ExtentFileTest, TheFileOfAKilledProcessIsRemovedLater) {
  const pid_t child = fork();
  if (child == 0) {
    const ExtentFile file = create(true);
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_THAT(names(), SizeIs(1));
  remove_orphans(directory_.path());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ExtentFileTest, FilesOfTheLivingAndOfOthersStay) {
  ExtentFile file = create(true);
  ASSERT_THAT(names(), SizeIs(1));
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
  };
  put(".teraio-1-0123456789abcde", "one digit less");
  put(".teraio--0123456789abcdef", "no process");
  put("notes", "mine");
  put(".teraio-1-0123456789abcdef", "");  // its owner has not locked it yet
  std::filesystem::create_symlink("notes", directory_.path() / ".teraio-2-0123456789abcdef");
  remove_orphans(directory_.path());
  EXPECT_THAT(names(), SizeIs(6));
  EXPECT_TRUE(file.remove_name().ok());
  EXPECT_THAT(names(), SizeIs(5));
}

}  // namespace
}  // namespace teraio::io
