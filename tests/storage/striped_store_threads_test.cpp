// StripedStore: the times of transfers, and drives for which the system refuses a thread.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/gated_io.h"
#include "testing/memory_io.h"
#include "testing/page_memory.h"
#include "testing/thread_limit.h"

namespace teraio::storage {
namespace {

using namespace std::chrono_literals;
using testing::Gate;
using testing::GatedIo;
using testing::PageMemory;
using testing::StoreSession;
using testing::Submitted;

constexpr int64_t kThreadedRequestBytes = kMiB;

// Acts as if every thread but the test's were preempted after each reading of the clock.
class LateClock final : public Clock {
 public:
  int64_t now_ns() const override {
    const int64_t now_ns = clock_.now_ns();
    if (std::this_thread::get_id() != test_) std::this_thread::sleep_for(5ms);
    return now_ns;
  }

 private:
  const SteadyClock clock_;
  const std::thread::id test_ = std::this_thread::get_id();
};

TEST(StripedStoreTimes, NothingBeginsBeforeItWasSubmitted) {
  Gate gate;
  gate.open();
  std::vector<DriveSpec> drives(1);
  drives[0].capacity_bytes = 16 * kThreadedRequestBytes;
  drives[0].io = std::make_unique<GatedIo>(gate);
  const LateClock clock;
  StoreSession session(
      std::make_unique<StripedStore>(std::move(drives), StripedStoreOptions(), clock));
  PageMemory memory(kThreadedRequestBytes);
  std::vector<Submitted> writes;
  for (int i = 0; i < 8; ++i) {
    const Extent extent = session.reserve(kThreadedRequestBytes);
    writes.push_back(session.submit(io::Direction::kWrite, extent, memory));
    std::this_thread::sleep_for(2ms);
  }
  for (const Submitted& write : writes) {
    const Completion completion = session.wait(write);
    EXPECT_LE(completion.submit_ns, completion.start_ns);
    EXPECT_LE(completion.start_ns, completion.end_ns);
  }
}

TEST(StripedStoreStart, ADriveWithoutAThreadIsAnErrorThatNamesIt) {
  if (!testing::can_limit_threads()) GTEST_SKIP() << "only root can take another user's limit";
  const auto names_second_drive = [] {
    VirtualClock clock;
    std::vector<DriveSpec> drives;
    for (const char* name : {"first", "second"}) {
      DriveSpec& drive = drives.emplace_back();
      drive.name = name;
      drive.capacity_bytes = kMiB;
      drive.io = testing::make_memory_io({.capacity_bytes = kMiB}, clock);
    }
    const auto store = StripedStore::open(std::move(drives), StripedStoreOptions(), clock);
    return store.status().message().find("drive second: ") == 0 ? 0 : 2;
  };
  EXPECT_EQ(testing::run_with_threads(1, names_second_drive), 0);
}
}  // namespace
}  // namespace teraio::storage
