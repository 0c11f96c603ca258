// The buffered path of thread I/O on a drive that breaks (the kernel takes every write, and finds
// out later that it cannot keep the bytes), and systems that refuse threads.
#include "io/thread_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/units.h"
#include "testing/loop_drive.h"
#include "testing/scratch_directory.h"
#include "testing/thread_limit.h"

namespace teraio::io {
namespace {

constexpr int32_t kInFlightMax = 4;
constexpr int64_t kFileBytes = 32 * kMiB;
constexpr int64_t kRequestBytes = kMiB;

class BufferedThreadIo : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = testing::LoopDrive::enter_namespace();
    if (!problem.empty()) GTEST_SKIP() << problem;
    drive_ = std::make_unique<testing::LoopDrive>(folder_.path(), "ext4", 100 * kMiB);
    if (!drive_->why_not().empty()) GTEST_SKIP() << drive_->why_not();
    fd_ = open((drive_->path() / "file").c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(fallocate(fd_, 0, 0, kFileBytes), 0);
    ASSERT_EQ(fsync(fd_), 0);
    io_ = std::move(make_thread_io(fd_, false, kInFlightMax).value());
  }

  void TearDown() override {
    io_.reset();
    if (fd_ >= 0) close(fd_);
    drive_.reset();
  }

  // Runs the first `count` of the file's requests, kInFlightMax at a time; returns their results.
  std::map<uint64_t, int64_t> run(Direction direction, std::byte* memory,
                                  uint64_t count = kFileBytes / kRequestBytes) {
    std::map<uint64_t, int64_t> ended;
    std::vector<IoResult> results;
    uint64_t submitted = 0;
    while (ended.size() < count) {
      for (; submitted < count && submitted < ended.size() + kInFlightMax; ++submitted) {
        IoRequest request;
        request.direction = direction;
        request.offset_bytes = static_cast<int64_t>(submitted) * kRequestBytes;
        request.memory = memory + request.offset_bytes;
        request.size_bytes = kRequestBytes;
        request.tag = submitted;
        io_->submit(request);
      }
      results.clear();
      io_->wait(results);
      for (const IoResult& result : results) ended[result.tag] = result.result;
    }
    return ended;
  }

  const testing::ScratchDirectory folder_;
  std::unique_ptr<testing::LoopDrive> drive_;
  int fd_ = -1;
  std::unique_ptr<DriveIo> io_;
};

TEST_F(BufferedThreadIo, AWriteThatTheKernelCouldNotFinishIsAnError) {
  std::vector<std::byte> written(kFileBytes, std::byte{0x5A});
  for (const auto& [request, result] : run(Direction::kWrite, written.data(), 8))
    ASSERT_EQ(result, kRequestBytes) << request;
  ASSERT_EQ(drive_->cut_off(36 * kMiB), "");
  std::fill(written.begin(), written.end(), std::byte{0xA5});
  const auto writes = run(Direction::kWrite, written.data());
  std::vector<std::byte> read(kFileBytes);
  const auto reads = run(Direction::kRead, read.data());
  int64_t failed_count = 0;
  for (const auto& [request, result] : writes) {
    if (result < 0) {
      ++failed_count;
      continue;
    }
    const int64_t offset_bytes = static_cast<int64_t>(request) * kRequestBytes;
    EXPECT_EQ(reads.at(request), kRequestBytes);
    EXPECT_EQ(std::memcmp(&read[offset_bytes], &written[offset_bytes], kRequestBytes), 0)
        << "request " << request << " was reported as written";
  }
  EXPECT_GT(failed_count, 0);
}

TEST_F(BufferedThreadIo, WritesSucceedWhileThereIsRoom) {
  std::vector<std::byte> written(kFileBytes, std::byte{0x5A});
  for (const auto& [request, result] : run(Direction::kWrite, written.data()))
    EXPECT_EQ(result, kRequestBytes) << request;
}

// Returns 0 if `count` requests that another thread would serve have ended.
int move_nothing(int32_t count) {
  ThreadIoOptions options;
  options.in_flight_max = kInFlightMax;
  options.transfer = [](const IoRequest& request) { return request.size_bytes; };
  const auto io = make_thread_io(std::move(options));
  if (!io.ok()) return 2;
  std::vector<IoResult> results;
  for (int32_t i = 0; i < count; ++i) (*io)->submit({.size_bytes = 4096});
  while (results.size() < static_cast<size_t>(count)) (*io)->wait(results);
  return 0;
}

class RefusedThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::can_limit_threads()) GTEST_SKIP() << "only root can take another user's limit";
  }
};

TEST_F(RefusedThreads, TheThreadsThatThereAreServeAllRequests) {
  EXPECT_EQ(
      testing::run_with_threads(kInFlightMax - 2, [] { return move_nothing(2 * kInFlightMax); }),
      0);
}

TEST_F(RefusedThreads, NoThreadAtAllIsAnError) {
  EXPECT_EQ(testing::run_with_threads(0, [] { return move_nothing(1); }), 2);
}

}  // namespace
}  // namespace teraio::io
