// Memory whose pages io_uring holds: that it is used, where it must not be, and how the store works
// without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/cpu_device.h"
#include "io/extent_file.h"
#include "io/uring_io.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/child_process.h"
#include "testing/page_memory.h"
#include "testing/scratch_directory.h"
#include "testing/stepped_device.h"

namespace teraio::storage {
namespace {

using ::testing::HasSubstr;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;
using testing::Submitted;

constexpr int kCannotGiveUpRights = 77;

// The only acceptable reason for a refusal here is the memory-lock limit. Any other failure is our
// own.
bool is_refused_by_the_limit(std::string_view reason) {
  return reason.find(std::strerror(ENOMEM)) != std::string_view::npos;
}

// One drive's file and its io_uring, without a store.
class RegisteredMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<io::ExtentFile> file = io::ExtentFile::create(directory_.path(), {.size_bytes = kMiB});
    ASSERT_TRUE(file.ok()) << file.status().message();
    if (!file->is_direct()) GTEST_SKIP() << "no direct I/O here";
    file_ = std::move(*file);
    Result<std::unique_ptr<io::DriveIo>> io = io::open_uring_io(file_.fd(), 4);
    if (io.status().code() == ErrorCode::kUnsupported) GTEST_SKIP() << io.status().message();
    ASSERT_TRUE(io.ok()) << io.status().message();
    io_ = std::move(*io);
  }

  void register_all_of(std::byte* memory, int64_t size_bytes) {
    const Status registered = io_->register_memory(memory, size_bytes);
    if (is_refused_by_the_limit(registered.message())) GTEST_SKIP() << registered.message();
    ASSERT_TRUE(registered.ok()) << registered.message();
  }

  int64_t move(io::Direction direction, std::byte* memory, int64_t offset_bytes,
               int64_t size_bytes) {
    io_->submit({direction, memory, offset_bytes, size_bytes, 1, {}});
    std::vector<io::IoResult> results;
    while (results.empty()) io_->wait(results);
    return results[0].result;
  }

  ScratchDirectory directory_;
  io::ExtentFile file_;
  std::unique_ptr<io::DriveIo> io_;
};

TEST_F(RegisteredMemory, RequestsWithinItAndOutsideItBringTheirBytes) {
  PageMemory registered(256 * kKiB), other(256 * kKiB);
  register_all_of(registered.data(), registered.size_bytes());
  if (IsSkipped()) return;
  EXPECT_EQ(io_->description(), "io_uring direct with registered buffers");
  registered.fill(1);
  EXPECT_EQ(move(io::Direction::kWrite, registered.data(), 0, 256 * kKiB), 256 * kKiB);
  EXPECT_EQ(move(io::Direction::kRead, other.data(), 0, 256 * kKiB), 256 * kKiB);
  EXPECT_TRUE(other.holds(1));
  other.fill(2);
  EXPECT_EQ(move(io::Direction::kWrite, other.data(), 4096, 256 * kKiB), 256 * kKiB);
  EXPECT_EQ(move(io::Direction::kRead, registered.data(), 4096, 128 * kKiB), 128 * kKiB);
  EXPECT_EQ(move(io::Direction::kRead, registered.data() + 128 * kKiB, 132 * kKiB, 128 * kKiB),
            128 * kKiB);
  EXPECT_TRUE(registered.holds(2));
}

// Shows why memory of a CpuDevice, whose pages may be exchanged, is never registered.
TEST_F(RegisteredMemory, PagesAndNotAddressesAreRegistered) {
  const auto map_page = [](int value) {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(page, value, 4096);
    return static_cast<std::byte*>(page);
  };
  std::byte* registered = map_page(1);
  register_all_of(registered, 4096);
  if (IsSkipped()) return;
  PageMemory on_drive(4096);
  on_drive.fill(3);
  ASSERT_EQ(move(io::Direction::kWrite, on_drive.data(), 0, 4096), 4096);
  std::byte* other = map_page(2);
  ASSERT_EQ(mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, registered), registered);
  EXPECT_EQ(move(io::Direction::kRead, registered, 0, 4096), 4096);
  EXPECT_EQ(registered[0], std::byte{2}) << "the bytes went to the page that was there before";
  EXPECT_EQ(registered[4095], std::byte{2});
  munmap(registered, 4096);
}

TEST_F(RegisteredMemory, MoreThanTheKernelTakesIsRefused) {
  PageMemory memory(4096);
  EXPECT_EQ(io_->register_memory(memory.data(), 2 * kGiB).code(), ErrorCode::kUnsupported);
  EXPECT_THAT(std::string(io_->description()), HasSubstr("buffers not registered: "));
  memory.fill(4);
  EXPECT_EQ(move(io::Direction::kWrite, memory.data(), 0, 4096), 4096);
}

class StoreWithDevice : public ::testing::Test {
 protected:
  Result<std::unique_ptr<TierStore>> open(device::Device& device) {
    SsdStoreOptions options;
    options.capacity_bytes = 32 * kMiB;
    options.backend = backend_;
    options.device = &device;
    options.gpu_direct = io::GpuDirect::kOff;
    options.checksum = true;
    return open_ssd_store({{directory_.path(), 0, 0}}, options, clock_);
  }

  static std::string io_path(const TierStore& store) { return store.counters().drives[0].io_path; }

  static bool bytes_come_back(StoreSession& session) {
    const Extent extent = session.reserve(9 * kMiB + 5);
    return session.write(extent, 1).status.ok() && session.holds(extent, 1);
  }

  // Runs `check` in a process that may lock only this much memory. Returns 0 if it returned true.
  template <typename Check>
  static int run_with_locked_memory(int64_t limit_bytes, const Check& check) {
    return testing::exit_code_in_child([&] {
      __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct none[2] = {};
      const auto size = static_cast<rlim_t>(limit_bytes);
      const rlimit limit = {size, size};
      const bool is_limited =
          setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && syscall(SYS_capset, &header, none) == 0;
      return !is_limited ? kCannotGiveUpRights : check() ? 0 : 1;
    });
  }

  ScratchDirectory directory_;
  SteadyClock clock_;
  IoBackend backend_ = IoBackend::kUring;
};

TEST_F(StoreWithDevice, TheStagingRingIsRegistered) {
  testing::SteppedDevice device{testing::SteppedDeviceOptions()};
  auto store = open(device);
  if (store.status().code() == ErrorCode::kUnsupported) GTEST_SKIP() << store.status().message();
  ASSERT_TRUE(store.ok()) << store.status().message();
  if (is_refused_by_the_limit(io_path(**store))) GTEST_SKIP() << io_path(**store);
  EXPECT_EQ(io_path(**store), "io_uring direct with registered buffers, staged");
  StoreSession session(std::move(*store));
  EXPECT_TRUE(bytes_come_back(session));
}

// Enough for io_uring itself, which newer kernels count too, but not for the staging ring.
TEST_F(StoreWithDevice, ALowMemoryLockLimitIsSaidAndDoneWithout) {
  const int result = run_with_locked_memory(kMiB, [this] {
    testing::SteppedDevice device{testing::SteppedDeviceOptions()};
    auto store = open(device);
    if (!store.ok()) return store.status().code() == ErrorCode::kUnsupported;
    const std::string path = io_path(**store);
    StoreSession session(std::move(*store));
    return path == "io_uring direct (buffers not registered: Cannot allocate memory), staged" &&
           bytes_come_back(session);
  });
  if (result == kCannotGiveUpRights) GTEST_SKIP() << "rights cannot be given up here";
  EXPECT_EQ(result, 0);
}

TEST_F(StoreWithDevice, AMemoryLockLimitOfNothingIsDoneWithout) {
  const int result = run_with_locked_memory(0, [this] {
    testing::SteppedDevice device{testing::SteppedDeviceOptions()};
    backend_ = IoBackend::kAuto;
    auto store = open(device);
    if (!store.ok() || io_path(**store).find("with registered buffers") != std::string::npos)
      return false;
    StoreSession session(std::move(*store));
    return bytes_come_back(session);
  });
  if (result == kCannotGiveUpRights) GTEST_SKIP() << "rights cannot be given up here";
  EXPECT_EQ(result, 0);
}

// I/O uses the tensors' own memory, whose pages may be exchanged. Registered pages would receive a
// read's bytes where the tensor used to be.
TEST_F(StoreWithDevice, MemoryOfTheCpuDeviceIsNotRegisteredAndMayMove) {
  auto device = device::make_cpu_device(16 * kMiB);
  ASSERT_TRUE(device.ok()) << device.status().message();
  auto store = open(**device);
  if (store.status().code() == ErrorCode::kUnsupported) GTEST_SKIP() << store.status().message();
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(io_path(**store), "io_uring direct");
  StoreSession session(std::move(*store));
  const Extent extent = session.reserve(6 * kMiB);
  ASSERT_TRUE(session.write(extent, 1).status.ok());
  std::vector<std::byte*> blocks;
  while (std::byte* block = (*device)->allocate(kMiB)) {
    std::memset(block, 1, kMiB);
    // Every address is used for I/O before its pages are exchanged.
    const Extent own = session.reserve(kMiB);
    const Submitted write =
        session.submit({io::Direction::kWrite, own, block, Priority::kPlanned, 0, {}, {}});
    ASSERT_TRUE(session.wait(write).status.ok());
    session.store().release(own);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) (*device)->release(blocks[i]);
  std::byte* exchanged = (*device)->allocate(6 * kMiB, device::Effort::kUtmost);
  ASSERT_NE(exchanged, nullptr) << "free memory is usable, however scattered";
  const Submitted read =
      session.submit({io::Direction::kRead, extent, exchanged, Priority::kPlanned, 0, {}, {}});
  ASSERT_TRUE(session.wait(read).status.ok());
  PageMemory expected(6 * kMiB);
  expected.fill(1);
  EXPECT_EQ(std::memcmp(exchanged, expected.data(), 6 * kMiB), 0);
}

}  // namespace
}  // namespace teraio::storage
