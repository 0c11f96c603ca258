// Drives that really fail: small file systems on loop devices that fill up, break or disappear.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/units.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/loop_drive.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LoopDrive;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

class RealFaults : public ::testing::Test {
 protected:
  // Skips the test if such a drive is impossible here.
  void make_drive(const std::string& file_system, int64_t size_bytes, int32_t sector_bytes = 512,
                  const std::string& mount_options = "") {
    drive_ = std::make_unique<LoopDrive>(directory_.path(), file_system, size_bytes, sector_bytes,
                                         mount_options);
    if (!drive_->why_not().empty()) GTEST_SKIP() << drive_->why_not();
  }

  Result<std::unique_ptr<TierStore>> try_open(int64_t capacity_bytes) {
    options_.capacity_bytes = capacity_bytes;
    return open_ssd_store({{drive_->path(), 0, 0}}, options_, clock_);
  }

  void open(int64_t capacity_bytes) {
    auto store = try_open(capacity_bytes);
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
  }

  bool is_empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(drive_->path()))
      if (entry.path().filename() != "lost+found" && entry.path().filename() != "others")
        return false;
    return true;
  }

  // Another process's file takes all free bytes but `left_bytes`.
  void fill_up(int64_t left_bytes) {
    const int fd = ::open((drive_->path() / "others").c_str(), O_CREAT | O_WRONLY, 0600);
    ASSERT_GE(fd, 0);
    const std::vector<char> bytes(1 << 16, 'x');
    while (std::filesystem::space(drive_->path()).available > static_cast<uint64_t>(left_bytes) &&
           write(fd, bytes.data(), bytes.size()) > 0) {
    }
    fsync(fd);
    close(fd);
  }

  StoreSession& session() { return *session_; }

  ScratchDirectory directory_;
  SsdStoreOptions options_;
  SteadyClock clock_;
  std::unique_ptr<LoopDrive> drive_;
  std::unique_ptr<StoreSession> session_;  // closes before its drive is destroyed
};

class OnFileSystem : public RealFaults, public ::testing::WithParamInterface<const char*> {};

// xfs is made no smaller.
INSTANTIATE_TEST_SUITE_P(Kinds, OnFileSystem, ::testing::Values("ext4", "xfs"),
                         [](const auto& info) { return info.param; });

TEST_P(OnFileSystem, EveryByteComesBack) {
  make_drive(GetParam(), 400 * kMiB);
  if (IsSkipped()) return;
  options_.checksum = true;
  open(64 * kMiB);
  for (const int64_t size_bytes : {int64_t{0}, int64_t{1}, int64_t{4097}, 33 * kMiB + 5}) {
    const Extent extent = session().reserve(size_bytes);
    ASSERT_TRUE(session().write(extent, 1).status.ok());
    EXPECT_TRUE(session().holds(extent, 1));
  }
  EXPECT_TRUE(is_empty());
}

TEST_P(OnFileSystem, AFullDriveIsRefusedBeforeItStarts) {
  make_drive(GetParam(), 400 * kMiB);
  if (IsSkipped()) return;
  fill_up(20 * kMiB);
  const auto store = try_open(64 * kMiB);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(store.status().message(),
              AllOf(HasSubstr(drive_->path().string()), HasSubstr("67.1 MB wanted")));
  EXPECT_TRUE(is_empty());
}

TEST_P(OnFileSystem, WhatIsPreallocatedStaysOursWhenTheDriveFillsUp) {
  make_drive(GetParam(), 400 * kMiB);
  if (IsSkipped()) return;
  open(64 * kMiB);
  fill_up(0);
  const Extent extent = session().reserve(60 * kMiB);
  const Status written = session().write(extent, 1).status;
  EXPECT_TRUE(written.ok()) << written.message();
  EXPECT_TRUE(session().holds(extent, 1));
}

TEST_F(RealFaults, ADriveThatCannotPreallocateRunsFullInTheMiddle) {
  make_drive("ext2", 100 * kMiB);
  if (IsSkipped()) return;
  open(64 * kMiB);
  const Extent early = session().reserve(4 * kMiB);
  ASSERT_TRUE(session().write(early, 1).status.ok());
  fill_up(8 * kMiB);
  const Extent late = session().reserve(56 * kMiB);
  const Status status = session().write(late, 2).status;
  EXPECT_EQ(status.code(), ErrorCode::kOutOfSpace) << status.message();
  EXPECT_THAT(status.message(), AllOf(HasSubstr(drive_->path().string()), HasSubstr("at offset "),
                                      HasSubstr("No space left on device")));
  EXPECT_TRUE(session().holds(early, 1)) << "the other tensors are as they were";
  session().close();
  EXPECT_TRUE(is_empty());
}

TEST_F(RealFaults, ABrokenDriveIsAnErrorForEveryTransferAndNoHang) {
  make_drive("ext4", 100 * kMiB);
  if (IsSkipped()) return;
  open(40 * kMiB);
  std::vector<Extent> extents;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    extents.push_back(session().reserve(4 * kMiB));
    ASSERT_TRUE(session().write(extents.back(), seed).status.ok());
  }
  drive_->lose_everything();
  for (const Extent& extent : extents) {
    PageMemory memory(extent.size_bytes);
    const Status status = session().transfer(io::Direction::kRead, extent, memory).status;
    EXPECT_EQ(status.code(), ErrorCode::kIoError) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(drive_->path().string()), HasSubstr("at offset "),
                                        HasSubstr("Input/output error")));
  }
  EXPECT_GE(session().store().counters().drives[0].error_count, 8);
}

TEST_F(RealFaults, ADriveThatIsUnmountedUnderUsGoesOnUntilWeClose) {
  make_drive("ext4", 100 * kMiB);
  if (IsSkipped()) return;
  open(40 * kMiB);
  const Extent extent = session().reserve(9 * kMiB);
  ASSERT_EQ(umount2(drive_->path().c_str(), MNT_DETACH), 0);
  ASSERT_TRUE(session().write(extent, 4).status.ok());
  EXPECT_TRUE(session().holds(extent, 4));
}

TEST_F(RealFaults, AReadOnlyDriveIsRefused) {
  make_drive("ext4", 100 * kMiB);
  if (IsSkipped()) return;
  ASSERT_EQ(mount("none", drive_->path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const auto store = try_open(8 * kMiB);
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.status().message(),
              AllOf(HasSubstr(drive_->path().string()), HasSubstr("Read-only file system")));
}

// Such a file system accepts O_DIRECT and keeps all bytes in the page cache all the same.
TEST_F(RealFaults, DirectIoThatIsNotHonouredIsBufferedIo) {
  make_drive("ext4", 100 * kMiB, 512, "data=journal");
  if (IsSkipped()) return;
  open(40 * kMiB);
  EXPECT_THAT(session().store().counters().drives[0].io_path, HasSubstr("buffered"));
  const Extent extent = session().reserve(9 * kMiB);
  ASSERT_TRUE(session().write(extent, 4).status.ok());
  EXPECT_TRUE(session().holds(extent, 4));
}

TEST_F(RealFaults, OffsetsBeyondFourGibibytes) {
  make_drive("ext4", 6 * kGiB, 4096);
  if (IsSkipped()) return;
  options_.checksum = true;
  open(5 * kGiB + 16 * kMiB);
  const Extent before = session().reserve(5 * kGiB);  // never written, so the drive stays sparse
  const Extent after = session().reserve(9 * kMiB + 1);
  EXPECT_GE(after.id, 5 * kGiB);
  ASSERT_TRUE(session().write(after, 7).status.ok());
  EXPECT_TRUE(session().holds(after, 7));
  session().store().release(before);
}

}  // namespace
}  // namespace teraio::storage
