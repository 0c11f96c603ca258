#include "drives/drive_identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>

#include "testing/scratch_directory.h"

namespace teraio::drives {
namespace {

namespace fs = std::filesystem;
using testing::ScratchDirectory;

// A tree like /sys in which this test's directory lies on a drive that the test describes.
class DriveIdentityTest : public ::testing::Test {
 protected:
  void attribute(const std::string& path, const std::string& text) {
    const fs::path file = tree_.path() / "devices" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  void lies_on(const std::string& device) {
    struct stat info;
    ASSERT_EQ(stat(tree_.path().c_str(), &info), 0);
    fs::create_directories(tree_.path() / "dev/block");
    fs::create_symlink(
        tree_.path() / "devices" / device,
        tree_.path() / "dev/block" / fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev)));
  }

  DriveIdentity identify() {
    const Result<DriveIdentity> identity = identify_drive(tree_.path(), tree_.path());
    EXPECT_TRUE(identity.ok());
    return identity.ok() ? *identity : DriveIdentity();
  }

  ScratchDirectory tree_;
};

TEST_F(DriveIdentityTest, APartitionIsItsDrive) {
  attribute("pci/nvme0/nvme0n1/nvme0n1p2/partition", "2");
  attribute("pci/nvme0/nvme0n1/device/model", "Samsung SSD 990 PRO 2TB                 ");
  attribute("pci/nvme0/nvme0n1/device/serial", "S7KHNJ0W1");
  attribute("pci/nvme0/nvme0n1/device/firmware_rev", "4B2QJXD7");
  lies_on("pci/nvme0/nvme0n1/nvme0n1p2");
  const DriveIdentity identity = identify();
  EXPECT_EQ(identity.name, "nvme0n1");
  EXPECT_EQ(identity.model, "Samsung SSD 990 PRO 2TB");
  EXPECT_EQ(identity.serial, "S7KHNJ0W1");
  EXPECT_EQ(identity.firmware, "4B2QJXD7");
}

TEST_F(DriveIdentityTest, AVirtualDriveHasItsSerialElsewhere) {
  attribute("virtio1/block/vda/serial", "disk-1");
  lies_on("virtio1/block/vda");
  EXPECT_EQ(identify().name, "vda");
  EXPECT_EQ(identify().serial, "disk-1");
  EXPECT_EQ(identify().model, "");
}

TEST_F(DriveIdentityTest, AHiddenDriveIsKnownByItsNumber) {
  EXPECT_EQ(identify().name.rfind("dev-", 0), 0);
  EXPECT_TRUE(identify().is_same_drive(identify()));
}

TEST_F(DriveIdentityTest, AMissingDirectoryIsAnError) {
  EXPECT_EQ(identify_drive("/nowhere/at/all").status().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace teraio::drives
