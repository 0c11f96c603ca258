// Huge pages and NUMA nodes: what the system reports, and host memory that uses them.
#include "device/system_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>

#include "base/units.h"
#include "device/cpu_device.h"
#include "device/host_memory.h"
#include "testing/child_process.h"
#include "testing/page_memory.h"
#include "testing/scratch_directory.h"
#include "testing/sysfs_tree.h"

namespace teraio::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PageMemory;
using testing::ScratchDirectory;
using ::testing::StartsWith;
using testing::SysfsTree;

TEST(SystemMemoryTest, AServerWithTwoNodes) {
  const SystemMemory memory = read_system_memory(SysfsTree("nvme_two_gpus").path());
  EXPECT_THAT(memory.numa_nodes, ElementsAre(0, 1));
  EXPECT_EQ(memory.transparent_huge_pages, "madvise");
  EXPECT_EQ(memory.free_reserved_huge_pages, 512);
}

TEST(SystemMemoryTest, NodesWithoutMemoryAreLeftOut) {
  const ScratchDirectory sysfs;
  std::filesystem::create_directories(sysfs.path() / "devices/system/node");
  std::ofstream(sysfs.path() / "devices/system/node/has_memory") << "0,2-3,17\n";
  EXPECT_THAT(read_system_memory(sysfs.path()).numa_nodes, ElementsAre(0, 2, 3, 17));
}

TEST(SystemMemoryTest, ASystemThatDoesNotTell) {
  const SystemMemory memory = read_system_memory("/nowhere");
  EXPECT_THAT(memory.numa_nodes, IsEmpty());
  EXPECT_EQ(memory.transparent_huge_pages, "");
  EXPECT_EQ(memory.free_reserved_huge_pages, 0);
}

TEST(NearestNode, TheDevicesElseTheDrives) {
  const SystemMemory two = {{0, 1}, "", 0};
  EXPECT_EQ(nearest_node(two, 1, 0), 1);
  EXPECT_EQ(nearest_node(two, -1, 1), 1);
  EXPECT_EQ(nearest_node(two, -1, -1), std::nullopt);
}

TEST(NearestNode, OneNodeIsNoChoiceAndAnAbsentOneNone) {
  EXPECT_EQ(nearest_node({{0}, "", 0}, 0, 0), std::nullopt);
  EXPECT_EQ(nearest_node({{}, "", 0}, 0, 0), std::nullopt);
  EXPECT_EQ(nearest_node({{0, 1}, "", 0}, 5, 0), std::nullopt);
}

// The policy of this memory, and its nodes as bits.
std::pair<int, unsigned long> policy_of(std::byte* memory) {
  int policy = -1;
  unsigned long nodes[16] = {};
  syscall(SYS_get_mempolicy, &policy, nodes, 1024, memory, MPOL_F_ADDR);
  return {policy, nodes[0]};
}

TEST(PreferNumaNode, TheSystemKnowsOfIt) {
  PageMemory memory(kMiB);
  const Status bound = prefer_numa_node(memory.data(), kMiB, 0);
  if (!bound.ok()) GTEST_SKIP() << bound.message();
  EXPECT_EQ(policy_of(memory.data()), std::pair(int{MPOL_PREFERRED}, 1UL));
  EXPECT_EQ(policy_of(memory.data() + kMiB - 4096), std::pair(int{MPOL_PREFERRED}, 1UL));
}

TEST(PreferNumaNode, ANodeThatIsNotThereIsAnError) {
  PageMemory memory(4096);
  const Status bound = prefer_numa_node(memory.data(), 4096, 1000);
  EXPECT_EQ(bound.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(bound.message(), HasSubstr("NUMA node 1000"));
}

// Reads from smaps the kilobytes of a field of the mapping that contains `memory`.
int64_t mapped_kilobytes(const std::byte* memory, const std::string& field) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(memory);
  bool is_there = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      is_there = begin <= wanted && wanted < end;
    else if (is_there && line.rfind(field, 0) == 0)
      return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() : device_(std::move(*make_cpu_device(kMiB))) {}

  SystemMemory system_ = read_system_memory("/sys");
  std::unique_ptr<Device> device_;
};

TEST_F(HostMemoryTest, LiesInHugePages) {
  if (system_.transparent_huge_pages == "never" || system_.transparent_huge_pages.empty())
    GTEST_SKIP() << "transparent huge pages are switched off";
  const auto memory = HostMemory::map(16 * kMiB + 4096, *device_);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_THAT(memory->description(), StartsWith("transparent huge pages"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->at(0)) % kHugePageBytes, 0);
  std::memset(memory->at(0), 1, 16 * kMiB + 4096);
  EXPECT_GT(mapped_kilobytes(memory->at(0), "AnonHugePages:"), 0);
}

// Huge pages that the system reserves for one test. Needs root.
class ReservedHugePages {
 public:
  explicit ReservedHugePages(int64_t count) : before_(read()) { write(before_ + count); }
  ReservedHugePages(const ReservedHugePages&) = delete;
  ReservedHugePages& operator=(const ReservedHugePages&) = delete;
  ~ReservedHugePages() { write(before_); }

 private:
  static constexpr const char* kCount = "/proc/sys/vm/nr_hugepages";

  static int64_t read() {
    int64_t count = 0;
    std::ifstream(kCount) >> count;
    return count;
  }
  static void write(int64_t count) { std::ofstream(kCount) << count; }

  int64_t before_;
};

TEST_F(HostMemoryTest, TakesReservedHugePagesWhereTheyAreEnough) {
  const ReservedHugePages reserved(4);
  system_ = read_system_memory("/sys");
  if (system_.free_reserved_huge_pages < 4) {
    GTEST_SKIP() << "cannot reserve huge pages: this needs root and unfragmented memory";
  }
  const auto memory = HostMemory::map(4 * kHugePageBytes, *device_);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_THAT(memory->description(), StartsWith("reserved huge pages"));
  EXPECT_EQ(read_system_memory("/sys").free_reserved_huge_pages,
            system_.free_reserved_huge_pages - 4);
  std::memset(memory->at(0), 1, 4 * kHugePageBytes);
  EXPECT_EQ(mapped_kilobytes(memory->at(0), "KernelPageSize:"), kHugePageBytes / 1024);
  const int64_t too_many = (system_.free_reserved_huge_pages + 1) * kHugePageBytes;
  const auto more = HostMemory::map(too_many, *device_);
  ASSERT_TRUE(more.ok()) << more.status().message();
  EXPECT_EQ(more->description().find("reserved"), std::string::npos);
}

// Makes it fail to populate pages in advance, as for a huge page beyond the limit of a group.
bool forbid_populating() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_POPULATE_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EFAULT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(HostMemoryTest, TakesOtherPagesWhereAGroupMayNotUseTheReservedOnes) {
  const ReservedHugePages reserved(4);
  if (read_system_memory("/sys").free_reserved_huge_pages < 4)
    GTEST_SKIP() << "cannot reserve huge pages: this needs root and unfragmented memory";
  const int result = testing::exit_code_in_child([&] {
    if (!forbid_populating()) return 77;
    const auto memory = HostMemory::map(4 * kHugePageBytes, *device_);
    return memory.ok() && memory->description().find("reserved") == std::string::npos ? 0 : 1;
  });
  if (result == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
}

TEST_F(HostMemoryTest, IsPlacedOnlyWhereThereIsAChoice) {
  const auto memory = HostMemory::map(kMiB, *device_, 0);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  const bool has_choice = nearest_node(system_, device_->numa_node(), 0).has_value();
  const auto [policy, nodes] = policy_of(memory->at(0));
  if (policy < 0) GTEST_SKIP() << "the system does not tell of NUMA policies";
  EXPECT_EQ(policy, has_choice ? int{MPOL_PREFERRED} : int{MPOL_DEFAULT});
  EXPECT_EQ(memory->description().find("NUMA") != std::string::npos, has_choice);
}

// A copy of the files that name a process's groups and their limits.
class UsableMemory : public ::testing::Test {
 protected:
  void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories((root_.path() / path).parent_path());
    std::ofstream(root_.path() / path) << text;
  }
  int64_t usable_bytes() const { return usable_memory_bytes(root_.path()); }

  const testing::ScratchDirectory root_;
};

TEST_F(UsableMemory, IsTheMachinesWithoutAGroup) {
  EXPECT_EQ(usable_bytes(), int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

TEST_F(UsableMemory, IsTheLeastLimitOfTheGroupsAbove) {
  write("proc/self/cgroup", "0::/jobs/training\n");
  write("sys/fs/cgroup/jobs/training/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/memory.max", "50000000\n");
  EXPECT_EQ(usable_bytes(), 50'000'000);
  write("sys/fs/cgroup/jobs/training/memory.max", "40000000\n");
  EXPECT_EQ(usable_bytes(), 40'000'000);
}

TEST_F(UsableMemory, AContainerSeesItsGroupAsTheRoot) {
  write("proc/self/cgroup", "0::/../../pod/container\n");
  write("sys/fs/cgroup/memory.max", "30000000\n");
  EXPECT_EQ(usable_bytes(), 30'000'000);
}

TEST_F(UsableMemory, KnowsTheFirstVersionOfGroups) {
  write("proc/self/cgroup", "5:cpu:/x\n4:memory:/jobs\n0::/\n");
  write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "20000000\n");
  EXPECT_EQ(usable_bytes(), 20'000'000);
}

TEST_F(UsableMemory, IsAvailableAsFarAsTheKernelEstimates) {
  EXPECT_EQ(available_memory_bytes(root_.path()), std::numeric_limits<int64_t>::max());
  write("proc/meminfo", "MemFree: 1 kB\nMemAvailable: 1000 kB\nSwapFree: 24 kB\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 1024 * 1024);
}

TEST_F(UsableMemory, IsAvailableAsFarAsGroupsAllow) {
  write("proc/meminfo", "MemAvailable: 1000000 kB\nSwapFree: 0 kB\n");
  write("proc/self/cgroup", "0::/jobs/training\n");
  write("sys/fs/cgroup/jobs/training/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/memory.max", "50000000\n");
  write("sys/fs/cgroup/jobs/memory.current", "30000000\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 20'000'000);
  write("sys/fs/cgroup/jobs/memory.stat", "anon 5\nactive_file 1000000\ninactive_file 2000000\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 23'000'000);
  write("sys/fs/cgroup/jobs/memory.max", "10000000\n");
  EXPECT_EQ(available_memory_bytes(root_.path()), 0);
}

}  // namespace
}  // namespace teraio::device
