// Opening a store: directories, files, options, and what remains afterwards.
#include "storage/ssd_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/units.h"
#include "io/extent_file.h"
#include "storage/store_session.h"
#include "testing/resident_memory.h"
#include "testing/sanitized.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kIsSanitized;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

class SsdStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<TierStore>> open(std::vector<std::filesystem::path> paths) {
    std::vector<SsdDirectory> directories;
    for (const auto& path : paths) directories.push_back({path, 0, 0});
    return open_ssd_store(directories, options_, clock_);
  }

  Status why_not(const std::filesystem::path& path) {
    auto store = open({path});
    EXPECT_FALSE(store.ok());
    return store.status();
  }

  SsdStoreOptions options_{.capacity_bytes = 8 * kMiB};
  SteadyClock clock_;
  ScratchDirectory directory_;
};

// A small separate file system. Needs root.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(const std::filesystem::path& path) : path_(path) {
    std::filesystem::create_directory(path);
    is_mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallFileSystem() {
    if (is_mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool is_mounted_;
};

TEST_F(SsdStoreTest, AMissingDirectoryIsNamed) {
  const Status status = why_not(directory_.path() / "absent");
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("absent"), HasSubstr("expected an existing")));
}

TEST_F(SsdStoreTest, AFileIsNotADirectory) {
  std::ofstream(directory_.path() / "file") << "x";
  const Status status = why_not(directory_.path() / "file");
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("expected a directory"));
}

TEST_F(SsdStoreTest, ARamFileSystemIsRefusedUnlessAllowed) {
  const SmallFileSystem ram(directory_.path() / "ram");
  if (!ram.is_mounted()) GTEST_SKIP() << "mounting needs root";
  options_.capacity_bytes = kMiB;
  EXPECT_THAT(why_not(ram.path()).message(), HasSubstr("RAM file system"));
  options_.allow_ram_directory = true;
  EXPECT_TRUE(open({ram.path()}).ok());
}

TEST_F(SsdStoreTest, TheReserveIsLeftFree) {
  const Result<int64_t> room_bytes = io::free_room_bytes(directory_.path(), 0);
  ASSERT_TRUE(room_bytes.ok());
  options_.reserve_free_bytes = *room_bytes;
  EXPECT_EQ(why_not(directory_.path()).code(), ErrorCode::kOutOfSpace);
}

TEST_F(SsdStoreTest, WrongOptionsAreNamed) {
  EXPECT_THAT(open({}).status().message(), HasSubstr("at least one directory"));
  options_.capacity_bytes = 0;
  EXPECT_THAT(why_not(directory_.path()).message(), HasSubstr("more than 0"));
  options_.capacity_bytes = kMiB;
  options_.request_bytes = 1000;
  EXPECT_THAT(why_not(directory_.path()).message(), HasSubstr("a multiple of 4096"));
  options_.request_bytes = kMiB;
  options_.queue_depth = 0;
  EXPECT_THAT(why_not(directory_.path()).message(), HasSubstr("1 to 1024"));
  options_.queue_depth = 8;
  options_.reserve_free_bytes = -1;
  EXPECT_THAT(why_not(directory_.path()).message(), HasSubstr("0 bytes or more"));
}

TEST_F(SsdStoreTest, TheFileHasNoNameWhileInUse) {
  const auto store = open({directory_.path()});
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(SsdStoreTest, TheFileIsPreallocatedAndOurs) {
  const auto file = io::ExtentFile::create(directory_.path(), {4 * kMiB, 0, false});
  ASSERT_TRUE(file.ok()) << file.status().message();
  struct stat info;
  ASSERT_EQ(fstat(file->fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  EXPECT_EQ(info.st_size, 4 * kMiB);
  EXPECT_GE(info.st_blocks * 512, 4 * kMiB);
  EXPECT_TRUE(fcntl(file->fd(), F_GETFD) & FD_CLOEXEC);
}

TEST_F(SsdStoreTest, NothingIsLeftAfterKill) {
  const pid_t child = fork();
  if (child == 0) {
    const auto store = open({directory_.path()});
    if (!store.ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(SsdStoreTest, DirectoriesOnOneDriveCountOnce) {
  std::filesystem::create_directory(directory_.path() / "a");
  std::filesystem::create_directory(directory_.path() / "b");
  const auto store = open({directory_.path() / "a", directory_.path() / "b"});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->counters().drives.size(), 1);
  EXPECT_EQ((*store)->counters().capacity_bytes, 8 * kMiB);
}

TEST_F(SsdStoreTest, TwoDrivesShareTheCapacity) {
  const SmallFileSystem other(directory_.path() / "other");
  if (!other.is_mounted()) GTEST_SKIP() << "mounting needs root";
  options_.allow_ram_directory = true;
  options_.capacity_bytes = 16 * kMiB;  // the small one holds 4 MiB, the other the rest
  auto store = open({directory_.path(), other.path()});
  ASSERT_TRUE(store.ok()) << store.status().message();
  StoreSession session(std::move(*store));
  EXPECT_EQ(session.store().counters().drives.size(), 2);
  const Extent extent = session.reserve(6 * kMiB);
  ASSERT_TRUE(session.write(extent, 3).status.ok());
  EXPECT_TRUE(session.holds(extent, 3));
  EXPECT_EQ(session.store().counters().drives[0].bytes_written, 3 * kMiB);
  EXPECT_EQ(session.store().counters().drives[1].bytes_written, 3 * kMiB);
}

TEST_F(SsdStoreTest, TheDirectoryMayDisappear) {
  std::filesystem::create_directory(directory_.path() / "gone");
  auto store = open({directory_.path() / "gone"});
  ASSERT_TRUE(store.ok());
  std::filesystem::remove(directory_.path() / "gone");
  StoreSession session(std::move(*store));
  const Extent extent = session.reserve(kMiB);
  ASSERT_TRUE(session.write(extent, 5).status.ok());
  EXPECT_TRUE(session.holds(extent, 5));
}

int64_t open_file_count() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

TEST_F(SsdStoreTest, NoDescriptorIsLeftOpen) {
  const int64_t before = open_file_count();
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kThreads}) {
    options_.backend = backend;
    options_.capacity_bytes = 8 * kMiB;
    ASSERT_TRUE(open({directory_.path()}).ok());
    EXPECT_EQ(open_file_count(), before);
    options_.capacity_bytes = int64_t{1} << 60;
    ASSERT_FALSE(open({directory_.path()}).ok());
    EXPECT_EQ(open_file_count(), before);
  }
}

// The limit that ssd_store.h states.
TEST_F(SsdStoreTest, TheStoreItselfTakesLittleMemory) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer's own memory is more than the store's";
  options_.capacity_bytes = 64 * kMiB;
  PageMemory memory(kMiB);
  memory.fill(1);
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kThreads}) {
    const int64_t before_bytes = testing::resident_bytes();
    options_.backend = backend;
    auto store = open({directory_.path()});
    ASSERT_TRUE(store.ok()) << store.status().message();
    StoreSession session(std::move(*store));
    for (int i = 0; i < 256; ++i) {
      const Extent extent = session.reserve(kMiB);
      ASSERT_TRUE(session.transfer(io::Direction::kWrite, extent, memory).status.ok());
      ASSERT_TRUE(session.transfer(io::Direction::kRead, extent, memory).status.ok());
      session.store().release(extent);
    }
    EXPECT_LE(testing::resident_bytes() - before_bytes, 2 * kMiB);
    constexpr int64_t kExtentCount = 16'000;
    for (int64_t i = 0; i < kExtentCount; ++i) session.reserve(4096);
    EXPECT_LE(testing::resident_bytes() - before_bytes, 2 * kMiB + kExtentCount * kKiB);
  }
}

}  // namespace
}  // namespace teraio::storage
