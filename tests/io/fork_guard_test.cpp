#include "io/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/units.h"
#include "io/extent_file.h"
#include "io/thread_io.h"
#include "io/uring_io.h"
#include "testing/child_process.h"
#include "testing/scratch_directory.h"

namespace teraio::io {
namespace {

using testing::exit_code_in_child;

// How many descriptors of this process are extent files or rings.
int kept_count() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.find("/.teraio-") != target.npos || target.find("[io_uring]") != target.npos)
      ++count;
  }
  return count;
}

bool refers_to_null(int fd) {
  struct stat info = {};
  struct stat null = {};
  return fstat(fd, &info) == 0 && stat("/dev/null", &null) == 0 && info.st_rdev == null.st_rdev;
}

class ForkGuardTest : public ::testing::Test {
 protected:
  ForkGuardTest() {
    auto file = ExtentFile::create(directory_.path(), {.size_bytes = kMiB});
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (file.ok()) file_ = std::move(*file);
  }

  const testing::ScratchDirectory directory_;
  ExtentFile file_;
};

TEST_F(ForkGuardTest, AChildHasNoExtentFile) {
  EXPECT_EQ(kept_count(), 1);
  EXPECT_EQ(exit_code_in_child(kept_count), 0);
  EXPECT_FALSE(refers_to_null(file_.fd()));
}

TEST_F(ForkGuardTest, AChildHasNoCopiesOfBufferedIo) {
  const auto io = make_thread_io(file_.fd(), false, 3);
  ASSERT_TRUE(io.ok()) << io.status().message();
  EXPECT_EQ(kept_count(), 4);
  EXPECT_EQ(exit_code_in_child(kept_count), 0);
}

TEST_F(ForkGuardTest, AChildHasNoRing) {
  const auto io = open_uring_io(file_.fd(), 4);
  if (!io.ok()) GTEST_SKIP() << "missing: io_uring: " << io.status().message();
  EXPECT_EQ(kept_count(), 2);
  EXPECT_EQ(exit_code_in_child(kept_count), 0);
}

TEST_F(ForkGuardTest, TheNumberStaysTakenInAChild) {
  EXPECT_EQ(exit_code_in_child([this] { return refers_to_null(file_.fd()) ? 1 : 0; }), 1);
}

TEST_F(ForkGuardTest, ADescriptorWithoutAGuardIsKept) {
  const int fd = open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto is_kept = [fd] { return refers_to_null(fd) ? 0 : 1; };
  auto guard = std::make_unique<ForkGuard>(fd);
  EXPECT_EQ(exit_code_in_child(is_kept), 0);
  ForkGuard moved = std::move(*guard);
  guard.reset();
  EXPECT_EQ(exit_code_in_child(is_kept), 0);
  moved = ForkGuard();
  EXPECT_EQ(exit_code_in_child(is_kept), 1);
  close(fd);
}

}  // namespace
}  // namespace teraio::io
