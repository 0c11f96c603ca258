#include "io/copy_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/units.h"
#include "testing/gated_device.h"
#include "testing/stepped_device.h"

namespace teraio::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CopyWatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto watcher = CopyWatcher::create(device_, [this] {
      const std::lock_guard lock(mutex_);
      ++told_count_;
      told_.notify_all();
    });
    ASSERT_TRUE(watcher.ok());
    watcher_ = std::move(*watcher);
    memory_ = device_.allocate(kMiB);
  }
  void TearDown() override {
    device_.open_gate();
    watcher_.reset();
    device_.release(memory_);
  }

  void copy(Direction direction, uint64_t tag) {
    watcher_->watch(direction, tag,
                    direction == Direction::kRead
                        ? device_.copy_from_host(memory_, host_.data(), kMiB, device_.record())
                        : device_.copy_to_host(host_.data(), memory_, kMiB, device_.record()));
  }
  // Waits until `count` ends have been told since the start.
  std::vector<uint64_t> take_after(int count) {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return told_count_ >= count; });
    std::vector<uint64_t> tags;
    for (const CopyWatcher::End& end : watcher_->take()) {
      EXPECT_TRUE(end.status.ok()) << end.status.message();
      tags.push_back(end.tag);
    }
    return tags;
  }

  testing::SteppedDevice stepped_{{}};
  testing::GatedDevice device_{stepped_};
  std::vector<std::byte> host_ = std::vector<std::byte>(kMiB);
  std::byte* memory_ = nullptr;
  std::mutex mutex_;
  std::condition_variable told_;
  int told_count_ = 0;
  std::unique_ptr<CopyWatcher> watcher_;
};

TEST_F(CopyWatcherTest, CopiesOfADirectionEndInTheirOrder) {
  for (uint64_t tag = 1; tag <= 3; ++tag) {
    copy(Direction::kWrite, tag);
    EXPECT_THAT(take_after(static_cast<int>(tag)), ElementsAre(tag));
  }
  EXPECT_THAT(watcher_->take(), IsEmpty());
}

TEST_F(CopyWatcherTest, ACopyToTheHostDoesNotHideOneFromIt) {
  device_.close_gate();
  copy(Direction::kWrite, 1);
  copy(Direction::kRead, 2);
  EXPECT_THAT(take_after(1), ElementsAre(2u));
  device_.open_gate();
  EXPECT_THAT(take_after(2), ElementsAre(1u));
}

TEST_F(CopyWatcherTest, EndsThatNobodyHasTakenAreToldOnce) {
  for (uint64_t tag = 1; tag <= 3; ++tag)
    watcher_->watch(Direction::kRead, tag, Status(ErrorCode::kDeviceFailed, "no copies"));
  EXPECT_EQ(told_count_, 1);
  EXPECT_EQ(watcher_->take().size(), 3u);
  watcher_->watch(Direction::kRead, 4, Status(ErrorCode::kDeviceFailed, "no copies"));
  EXPECT_EQ(told_count_, 2);
}

TEST_F(CopyWatcherTest, ACopyThatCouldNotBeginHasEnded) {
  watcher_->watch(Direction::kRead, 7, Status(ErrorCode::kDeviceFailed, "no copies"));
  const std::vector<CopyWatcher::End> ends = watcher_->take();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].tag, 7u);
  EXPECT_THAT(ends[0].status.message(), HasSubstr("no copies"));
}

}  // namespace
}  // namespace teraio::io
