#include "io/extent_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "testing/scratch_directory.h"

namespace teraio::io {
namespace {

constexpr int64_t kFileBytes = 8 * kMiB;

int64_t size_of(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return info.st_size;
}

class ExtentFileTest : public ::testing::Test {
 protected:
  ExtentFile create() {
    auto file = ExtentFile::create(directory_.path(), {.size_bytes = kFileBytes});
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : ExtentFile();
  }

  const testing::ScratchDirectory directory_;
};

TEST_F(ExtentFileTest, AForkedChildDoesNotKeepTheRoom) {
  ExtentFile file = create();
  const int fd = dup(file.fd());  // as a child would have it
  ASSERT_EQ(size_of(fd), kFileBytes);
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
  EXPECT_EQ(size_of(file.fd()), kFileBytes);
}

}  // namespace
}  // namespace teraio::io
