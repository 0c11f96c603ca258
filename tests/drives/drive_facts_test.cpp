// Reads facts from captured /sys trees.
#include "drives/drive_facts.h"

#include <gtest/gtest.h>

#include "testing/sysfs_tree.h"

namespace teraio::drives {
namespace {

using testing::SysfsTree;

TEST(DriveFactsTest, AnNvmeDrive) {
  const SysfsTree tree("nvme_two_gpus");
  const DriveFacts drive = read_drive_facts(tree.drive("nvme0n1"));
  EXPECT_EQ(drive.name, "nvme0n1");
  EXPECT_EQ(drive.kind, "NVMe");
  EXPECT_EQ(drive.model, "Samsung SSD 990 PRO 2TB");
  EXPECT_EQ(drive.serial, "S7KHNJ0W100001");
  EXPECT_EQ(drive.firmware, "4B2QJXD7");
  EXPECT_EQ(drive.size_bytes, 2'000'398'934'016);
  EXPECT_EQ(drive.pci_address, "0000:3d:00.0");
  EXPECT_EQ(drive.link.speed, "16.0 GT/s PCIe");
  EXPECT_EQ(drive.link.width, 4);
  EXPECT_FALSE(drive.link.is_reduced());
  EXPECT_EQ(drive.numa_node, 0);
  ASSERT_TRUE(drive.temperature.has_value());
  EXPECT_DOUBLE_EQ(drive.temperature->celsius, 41.85);
  EXPECT_EQ(drive.temperature->limit_celsius, 81.85);
  EXPECT_EQ(drive.bytes_written, 262'144'000 * 512LL);
  EXPECT_EQ(drive.bytes_read, 98'765'432 * 512LL);
}

TEST(DriveFactsTest, ANarrowLinkAndAnOldKernelsTemperature) {
  const SysfsTree tree("nvme_two_gpus");
  const DriveFacts drive = read_drive_facts(tree.drive("nvme1n1"));
  EXPECT_TRUE(drive.link.is_reduced());
  EXPECT_EQ(drive.link.width_max, 4);
  ASSERT_TRUE(drive.temperature.has_value());
  EXPECT_DOUBLE_EQ(drive.temperature->celsius, 79.85);
  EXPECT_EQ(drive.temperature->limit_celsius, std::nullopt);
}

TEST(DriveFactsTest, DistancesToGpus) {
  const SysfsTree tree("nvme_two_gpus");
  const std::vector<GpuFacts> gpus = find_gpus(tree.path());
  ASSERT_EQ(gpus.size(), 2);
  EXPECT_EQ(gpus[0].pci_address, "0000:3e:00.0");
  const DriveFacts near = read_drive_facts(tree.drive("nvme0n1"));
  const DriveFacts far = read_drive_facts(tree.drive("nvme1n1"));
  EXPECT_EQ(describe_distance(near, gpus[0]), "same PCIe switch");
  EXPECT_EQ(describe_distance(near, gpus[1]), "other NUMA node");
  EXPECT_EQ(describe_distance(far, gpus[1]), "same root complex");
  EXPECT_EQ(describe_distance(DriveFacts(), gpus[1]), "unknown");
}

TEST(DriveFactsTest, AVirtualDrive) {
  const SysfsTree tree("virtio");
  const DriveFacts drive = read_drive_facts(tree.drive("vda"));
  EXPECT_EQ(drive.kind, "virtio");
  EXPECT_EQ(drive.model, "");
  EXPECT_EQ(drive.serial, "root-disk");
  EXPECT_EQ(drive.pci_address, "0000:00:02.0");
  EXPECT_EQ(drive.link.speed, "");
  EXPECT_EQ(drive.numa_node, -1);
  EXPECT_FALSE(drive.temperature.has_value());
  EXPECT_EQ(drive.bytes_written, 37'070'384 * 512LL);
  EXPECT_TRUE(find_gpus(tree.path()).empty());
}

TEST(DriveFactsTest, ARaidUnderAMapping) {
  const SysfsTree tree("raid0_of_nvme");
  const DriveFacts mapping = read_drive_facts(tree.drive("dm-0"));
  EXPECT_EQ(mapping.kind, "device mapper");
  ASSERT_EQ(mapping.members.size(), 1);
  const DriveFacts& raid = mapping.members[0];
  EXPECT_EQ(raid.kind, "md raid0");
  EXPECT_EQ(raid.pci_address, "");
  ASSERT_EQ(raid.members.size(), 2);
  EXPECT_EQ(raid.members[0].name, "nvme0n1") << "the partition's drive";
  EXPECT_EQ(raid.members[0].serial, "S7KHNJ0W100011");
  EXPECT_EQ(raid.members[1].serial, "S7KHNJ0W100012") << "below an NVMe subsystem";
  EXPECT_EQ(raid.members[1].pci_address, "0000:02:00.0");
}

TEST(DriveFactsTest, ARaidIsAsWarmAsAMember) {
  const SysfsTree tree("raid0_of_nvme");
  const auto temperature = read_temperature(tree.drive("dm-0"));
  ASSERT_TRUE(temperature.has_value());
  EXPECT_DOUBLE_EQ(temperature->celsius, 66.85);
}

TEST(DriveFactsTest, WhatIsNotThereStaysEmpty) {
  const DriveFacts drive = read_drive_facts("/nowhere/at/all/sdx");
  EXPECT_EQ(drive.name, "sdx");
  EXPECT_EQ(drive.size_bytes, 0);
  EXPECT_FALSE(read_temperature("/nowhere/at/all/sdx").has_value());
}

}  // namespace
}  // namespace teraio::drives
