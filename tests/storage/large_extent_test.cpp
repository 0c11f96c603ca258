// A tensor of more than 5 GiB on a real drive, with every byte checked.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/units.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/page_memory.h"
#include "testing/sanitized.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using testing::kIsSanitized;
using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;

constexpr int64_t kSizeBytes = 5 * kGiB + 1;
// Does not divide 4 GiB, so an offset that loses its upper bits finds other bytes.
constexpr int64_t kPeriodBytes = 60 * kMiB;

// Addresses for a whole tensor that repeat the memory of one period.
class RepeatedMemory {
 public:
  RepeatedMemory() : fd_(memfd_create("period", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_, kPeriodBytes), 0);
    bytes_ = static_cast<std::byte*>(
        mmap(nullptr, kRoomBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (int64_t offset = 0; offset < kRoomBytes; offset += kPeriodBytes)
      EXPECT_NE(mmap(bytes_ + offset, kPeriodBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     fd_, 0),
                MAP_FAILED);
  }
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;
  ~RepeatedMemory() {
    munmap(bytes_, kRoomBytes);
    close(fd_);
  }
  std::byte* data() { return bytes_; }

 private:
  static constexpr int64_t kRoomBytes = (kSizeBytes / kPeriodBytes + 1) * kPeriodBytes;

  int fd_;
  std::byte* bytes_;
};

TEST(LargeExtent, MoreThanFiveGibibytesComeBackFromADrive) {
  const ScratchDirectory directory;
  if (kIsSanitized) GTEST_SKIP() << "takes too long with a sanitizer";
  const auto free_bytes = static_cast<int64_t>(std::filesystem::space(directory.path()).available);
  if (free_bytes < 12 * kGiB)
    GTEST_SKIP() << "needs 12 GiB of free room, here are " << format_size(free_bytes);
  SteadyClock clock;
  SsdStoreOptions options;
  options.capacity_bytes = kSizeBytes + kMiB;
  auto store = open_ssd_store({{directory.path(), 0, 0}}, options, clock);
  ASSERT_TRUE(store.ok()) << store.status().message();
  StoreSession session(std::move(*store));
  PageMemory period(kPeriodBytes);
  period.fill(1);
  RepeatedMemory memory;
  std::memcpy(memory.data(), period.data(), kPeriodBytes);
  const Extent extent = session.reserve(kSizeBytes);
  const auto move = [&](io::Direction direction) {
    const Completion completion =
        session.wait(session.submit({direction, extent, memory.data(), Priority::kPlanned, 0, {}}));
    EXPECT_TRUE(completion.status.ok()) << completion.status.message();
    EXPECT_EQ(completion.transferred_bytes, kSizeBytes);
  };
  move(io::Direction::kWrite);
  std::memset(memory.data(), 0, kPeriodBytes);
  move(io::Direction::kRead);
  EXPECT_EQ(std::memcmp(memory.data(), period.data(), kPeriodBytes), 0);
}

}  // namespace
}  // namespace teraio::storage
