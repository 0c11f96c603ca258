// Host memory near a device: from the device's PCI address to the NUMA node of its pool.
#include <gtest/gtest.h>

#include "device/pci_address.h"
#include "device/system_memory.h"
#include "testing/sysfs_tree.h"

namespace teraio::device {
namespace {

using testing::SysfsTree;

TEST(DeviceNodeTest, IsTheOneThatTheSystemTells) {
  const SysfsTree tree("nvme_two_gpus");
  EXPECT_EQ(numa_node_of_pci_device("0000:3e:00.0", tree.path()), 0);
  EXPECT_EQ(numa_node_of_pci_device("0000:da:00.0", tree.path()), 1);
}

TEST(DeviceNodeTest, CapitalsAsCudaWritesThem) {
  const SysfsTree tree("nvme_two_gpus");
  EXPECT_EQ(numa_node_of_pci_device("0000:DA:00.0", tree.path()), 1);
}

TEST(DeviceNodeTest, NotKnown) {
  const SysfsTree tree("nvme_two_gpus");
  EXPECT_EQ(numa_node_of_pci_device("0000:99:00.0", tree.path()), -1);
  EXPECT_EQ(numa_node_of_pci_device("", tree.path()), -1);
}

TEST(DeviceNodeTest, DecidesWhereHostMemoryLiesBeforeTheDriveDoes) {
  const SysfsTree tree("nvme_two_gpus");
  const SystemMemory memory = read_system_memory(tree.path());
  const int32_t second_gpu = numa_node_of_pci_device("0000:DA:00.0", tree.path());
  EXPECT_EQ(nearest_node(memory, second_gpu, 0), 1);
}

}  // namespace
}  // namespace teraio::device
