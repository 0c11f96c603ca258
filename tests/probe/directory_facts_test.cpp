// The facts of `teraio doctor`: mounts, drives of captured trees, and GPUDirect Storage with its
// reasons.
#include "probe/directory_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "testing/scratch_directory.h"
#include "testing/sysfs_tree.h"

namespace teraio::probe {
namespace {

using ::testing::HasSubstr;
using testing::ScratchDirectory;
using testing::SysfsTree;

constexpr const char* kMountinfo =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
    "broken line\n"
    "60 27 0:48 /vol /mnt/fast\\040disk rw,noatime shared:5 master:2 - btrfs /dev/nvme0n1p1 rw\n"
    "61 27 259:3 / /mnt/fast rw - xfs /dev/nvme1n1 rw\n";

TEST(FindMount, TheInnermostCounts) {
  EXPECT_EQ(find_mount(kMountinfo, "/home/me")->source, "/dev/vda");
  EXPECT_EQ(find_mount(kMountinfo, "/mnt/fast/spill")->file_system, "xfs");
  EXPECT_EQ(find_mount(kMountinfo, "/mnt/fast disk/x")->file_system, "btrfs");
  EXPECT_EQ(find_mount(kMountinfo, "/mnt/faster")->file_system, "ext4");
  EXPECT_THAT(find_mount(kMountinfo, "/mnt/fast disk")->options, HasSubstr("noatime"));
  EXPECT_EQ(find_mount("", "/"), std::nullopt);
}

class InspectDirectory : public ::testing::Test {
 protected:
  // Inspects the test's directory as if it were mounted from this device.
  DirectoryFacts inspect(const SysfsTree& tree, const std::string& source) {
    const std::filesystem::path mountinfo = scratch_.path() / "mountinfo";
    std::ofstream(mountinfo) << "27 1 259:2 / / rw - ext4 " << source << " rw\n";
    SystemFolders folders;
    folders.sysfs = tree.path();
    folders.mountinfo = mountinfo;
    folders.udev = tree.path() / "class";  // exists
    return inspect_directory(directory_.path(), folders);
  }

  ScratchDirectory scratch_;
  ScratchDirectory directory_;
};

TEST_F(InspectDirectory, SaysWhatAUsableDirectoryIs) {
  const SysfsTree tree("virtio");
  const DirectoryFacts facts = inspect(tree, "/dev/vda");
  EXPECT_TRUE(facts.status.ok()) << facts.status.message();
  EXPECT_EQ(facts.mount->file_system, "ext4");
  EXPECT_GT(facts.free_bytes, 0);
  ASSERT_TRUE(facts.drive.has_value());
  EXPECT_EQ(facts.drive->serial, "root-disk");
  EXPECT_THAT(facts.gpu_direct_off, HasSubstr("no NVIDIA GPU"));
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(InspectDirectory, APartitionIsItsDrive) {
  setenv("TERAIO_LIBCUFILE", "/nowhere/libcufile.so.0", 1);
  const SysfsTree tree("nvme_two_gpus");
  const DirectoryFacts facts = inspect(tree, "/dev/nvme0n1p1");
  ASSERT_TRUE(facts.drive.has_value());
  EXPECT_EQ(facts.drive->name, "nvme0n1");
  EXPECT_THAT(facts.gpu_direct_off, HasSubstr("/nowhere/libcufile.so.0"));
  unsetenv("TERAIO_LIBCUFILE");
}

TEST_F(InspectDirectory, AHiddenDriveIsSaid) {
  const SysfsTree tree("virtio");
  EXPECT_FALSE(inspect(tree, "overlay").drive.has_value());
  EXPECT_FALSE(inspect(tree, "/dev/unheard-of").drive.has_value());
}

TEST(InspectNothing, AMissingDirectoryIsAProblemNotACrash) {
  const DirectoryFacts facts = inspect_directory("/nowhere/at/all", {});
  EXPECT_EQ(facts.status.code(), ErrorCode::kNotFound);
}

class WhyNoGpuDirect : public ::testing::Test {
 protected:
  WhyNoGpuDirect() {
    conditions_.has_gpu = conditions_.has_udev = conditions_.has_direct_io = true;
    conditions_.file_system = "ext4";
    drive_ = drives::DriveFacts();
    drive_->name = "nvme0n1";
    drive_->kind = "NVMe";
  }

  std::string why() { return why_no_gpu_direct(conditions_, drive_); }

  GpuDirectConditions conditions_;
  std::optional<drives::DriveFacts> drive_;
};

TEST_F(WhyNoGpuDirect, NothingIsInTheWay) { EXPECT_EQ(why(), ""); }

TEST_F(WhyNoGpuDirect, NoGpu) {
  conditions_.has_gpu = false;
  EXPECT_THAT(why(), HasSubstr("no NVIDIA GPU"));
}

TEST_F(WhyNoGpuDirect, AHiddenDrive) {
  drive_.reset();
  EXPECT_THAT(why(), HasSubstr("hides its drive"));
}

TEST_F(WhyNoGpuDirect, ADriveOfAnotherKind) {
  drive_->kind = "virtio";
  EXPECT_THAT(why(), HasSubstr("nvme0n1 is not an NVMe drive (virtio)"));
  drive_->kind = "md raid1";
  EXPECT_THAT(why(), HasSubstr("md raid1"));
}

TEST_F(WhyNoGpuDirect, AnotherFileSystem) {
  conditions_.file_system = "btrfs";
  EXPECT_THAT(why(), HasSubstr("is btrfs: expected ext4 or xfs"));
}

TEST_F(WhyNoGpuDirect, NoDirectIo) {
  conditions_.has_direct_io = false;
  EXPECT_THAT(why(), HasSubstr("no direct I/O"));
}

TEST_F(WhyNoGpuDirect, ARaidWithoutTheModule) {
  drive_->kind = "md raid0";
  EXPECT_THAT(why(), HasSubstr("nvidia-fs"));
  conditions_.has_nvidia_fs = true;
  EXPECT_EQ(why(), "");
}

TEST_F(WhyNoGpuDirect, AContainerWithoutUdev) {
  conditions_.has_udev = false;
  EXPECT_THAT(why(), HasSubstr("/run/udev"));
}

TEST_F(WhyNoGpuDirect, TheLibrarysOwnReason) {
  conditions_.library = Status(ErrorCode::kUnsupported, "libcufile.so.0: not found");
  EXPECT_EQ(why(), "libcufile.so.0: not found");
}

}  // namespace
}  // namespace teraio::probe
