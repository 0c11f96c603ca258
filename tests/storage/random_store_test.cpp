// Thousands of random operations with random faults, compared with a model in memory.
//
// TERAIO_TEST_SEED=<n> repeats one run. A failure prints the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "io/extent_file.h"
#include "io/thread_io.h"
#include "io/uring_io.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/memory_store.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using testing::PageMemory;
using testing::ScratchDirectory;
using testing::StoreSession;
using testing::Submitted;

constexpr int kStepCount = 3000;
constexpr int64_t kDriveBytes = 16 * kMiB;

// The expected contents of an extent.
struct Model {
  Extent extent;
  uint64_t seed = 0;
  bool holds_seed = false;
};

struct UnderWay {
  size_t model = 0;
  io::Direction direction = io::Direction::kRead;
  uint64_t seed = 0;
  std::unique_ptr<PageMemory> memory;
  Submitted submitted;
  bool was_cancelled = false;
};

class RandomRun {
 public:
  RandomRun(std::unique_ptr<TierStore> store, uint64_t seed, bool expect_failures)
      : session_(std::move(store)), random_(seed), expect_failures_(expect_failures) {}

  void run() {
    for (int step = 0; step < kStepCount && !::testing::Test::HasFatalFailure(); ++step) {
      if (pick(150) == 0) lay_out();
      switch (pick(9)) {
        case 0:
          reserve();
          break;
        case 8:
          reserve_planned();
          break;
        case 1:
          release();
          break;
        case 2:
        case 3:
          begin(io::Direction::kWrite);
          break;
        case 4:
        case 5:
          begin(io::Direction::kRead);
          break;
        case 6:
          disturb();
          break;
        case 7:
          end();
          break;
      }
    }
    while (!under_way_.empty() && !::testing::Test::HasFatalFailure()) end();
    if (::testing::Test::HasFatalFailure()) return;
    reserve_whole_plan();
    EXPECT_GT(good_reads_, 0);
    if (!expect_failures_) EXPECT_EQ(failures_, 0);
  }

  int failures() const { return failures_; }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  bool is_busy(size_t model) const {
    return std::any_of(under_way_.begin(), under_way_.end(),
                       [&](const UnderWay& each) { return each.model == model; });
  }

  void reserve() {
    const int64_t size_bytes = pick(4) == 0 ? pick(6 * kMiB) : pick(200'000);
    const Result<Extent> extent = session_.store().reserve(size_bytes);
    if (extent.ok())
      models_[next_model_++] = {*extent, 0, false};
    else
      EXPECT_EQ(extent.status().code(), ErrorCode::kOutOfSpace);
  }

  // Extents of the previous layout stay in place.
  void lay_out() {
    planned_.clear();
    for (size_t i = pick(20); i > 0; --i) {
      const auto begin = static_cast<int64_t>(pick(20));
      const auto size_bytes = static_cast<int64_t>(pick(4) == 0 ? pick(6 * kMiB) : pick(200'000));
      planned_.push_back({size_bytes, begin, begin + 1 + static_cast<int64_t>(pick(10))});
    }
    const Status status = session_.store().lay_out(planned_);
    if (status.ok()) return;
    EXPECT_EQ(status.code(), ErrorCode::kOutOfSpace);
    planned_.clear();
  }

  // Reserves copies in any order, regardless of the plan's times.
  void reserve_planned() {
    if (planned_.empty()) return;
    const size_t copy = pick(planned_.size());
    const std::optional<Extent> extent = session_.store().reserve_planned(copy);
    if (!extent) return;
    EXPECT_EQ(extent->size_bytes, planned_[copy].size_bytes);
    models_[next_model_++] = {*extent, 0, false};
  }

  // Random plans may all find the drives too full: an empty store takes a plan and its every copy.
  void reserve_whole_plan() {
    for (const auto& [index, model] : models_) session_.store().release(model.extent);
    models_.clear();
    planned_.assign(4, {.size_bytes = 100'000, .begin = 0, .end = 1});
    const Status status = session_.store().lay_out(planned_);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t copy = 0; copy < planned_.size(); ++copy) {
      const std::optional<Extent> extent = session_.store().reserve_planned(copy);
      ASSERT_TRUE(extent.has_value()) << "copy " << copy;
      EXPECT_EQ(extent->size_bytes, planned_[copy].size_bytes);
      models_[next_model_++] = {*extent, 0, false};
    }
  }

  size_t any_model() { return std::next(models_.begin(), pick(models_.size()))->first; }

  void release() {
    if (models_.empty()) return;
    const size_t model = any_model();
    if (is_busy(model)) return;
    session_.store().release(models_[model].extent);
    models_.erase(model);
  }

  void begin(io::Direction direction) {
    if (models_.empty() || under_way_.size() > 12) return;
    const size_t index = any_model();
    Model& model = models_[index];
    if (is_busy(index) || (direction == io::Direction::kRead && !model.holds_seed)) return;
    UnderWay& transfer = under_way_.emplace_back();
    transfer.model = index;
    transfer.direction = direction;
    transfer.memory = std::make_unique<PageMemory>(model.extent.size_bytes);
    transfer.seed = direction == io::Direction::kWrite ? random_() : model.seed;
    if (direction == io::Direction::kWrite) transfer.memory->fill(transfer.seed);
    const Priority priority = pick(4) == 0 ? Priority::kUrgent : Priority::kPlanned;
    transfer.submitted = session_.submit(direction, model.extent, *transfer.memory, priority,
                                         static_cast<int64_t>(pick(100)));
  }

  void disturb() {
    if (under_way_.empty()) return;
    UnderWay& transfer = under_way_[pick(under_way_.size())];
    if (pick(2) == 0)
      session_.store().expedite(transfer.submitted.id);
    else if (session_.store().cancel(transfer.submitted.id))
      transfer.was_cancelled = true;
  }

  void end() {
    if (under_way_.empty()) return;
    std::swap(under_way_[pick(under_way_.size())], under_way_.back());
    const UnderWay transfer = std::move(under_way_.back());
    under_way_.pop_back();
    const Completion completion = session_.wait(transfer.submitted);
    Model& model = models_[transfer.model];
    const bool is_ok = completion.status.ok();
    ASSERT_EQ(completion.status.code() == ErrorCode::kCancelled, transfer.was_cancelled);
    ASSERT_EQ(session_.completions().call_count(transfer.submitted.ticket), 1);
    if (is_ok) ASSERT_EQ(completion.transferred_bytes, model.extent.size_bytes);
    if (!is_ok && !transfer.was_cancelled) {
      ++failures_;
      ASSERT_FALSE(completion.status.message().empty());
    }
    if (transfer.direction == io::Direction::kWrite) {
      model.seed = transfer.seed;
      model.holds_seed = is_ok;
    } else if (is_ok) {
      ++good_reads_;
      ASSERT_TRUE(transfer.memory->holds(transfer.seed))
          << model.extent.size_bytes << " bytes at " << model.extent.id << " differ from byte "
          << transfer.memory->first_difference(transfer.seed) << " on";
    }
  }

  StoreSession session_;
  std::mt19937_64 random_;
  const bool expect_failures_;
  std::map<size_t, Model> models_;
  size_t next_model_ = 0;
  std::vector<UnderWay> under_way_;
  std::vector<PlannedCopy> planned_;
  int good_reads_ = 0;
  int failures_ = 0;
};

std::vector<uint64_t> seeds() {
  if (const char* chosen = std::getenv("TERAIO_TEST_SEED"))
    return {std::strtoull(chosen, nullptr, 10)};
  return {1, 2, 3, std::random_device()()};
}

class RandomStore : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStore, ::testing::ValuesIn(seeds()),
                         [](const auto& info) { return "n" + std::to_string(info.index); });

TEST_P(RandomStore, MemoryWithSurvivableFaults) {
  SCOPED_TRACE(::testing::Message() << "TERAIO_TEST_SEED=" << GetParam());
  VirtualClock clock;
  testing::MemoryStoreOptions options;
  options.request_bytes = 128 * kKiB;
  options.drives = {{.capacity_bytes = kDriveBytes}, {.capacity_bytes = kDriveBytes / 4}};
  options.faults = [](int32_t drive) {
    return testing::random_faults(GetParam() + drive,
                                  {.passing = 0.1, .partial = 0.2, .late = 0.3});
  };
  RandomRun(open_memory_store(options, clock), GetParam(), false).run();
}

TEST_P(RandomStore, MemoryWithErrors) {
  SCOPED_TRACE(::testing::Message() << "TERAIO_TEST_SEED=" << GetParam());
  VirtualClock clock;
  testing::MemoryStoreOptions options;
  options.drives = {{.capacity_bytes = kDriveBytes}, {.capacity_bytes = kDriveBytes}};
  options.faults = [](int32_t drive) {
    return testing::random_faults(GetParam() + drive,
                                  {.partial = 0.1, .late = 0.1, .io_error = 0.02, .full = 0.02});
  };
  RandomRun run(open_memory_store(options, clock), GetParam(), true);
  run.run();
  EXPECT_GT(run.failures(), 0);
}

// Faults over real files, one behind threads, one behind io_uring where the machine has it.
TEST_P(RandomStore, FilesWithFaults) {
  SCOPED_TRACE(::testing::Message() << "TERAIO_TEST_SEED=" << GetParam());
  const ScratchDirectory directory;
  SteadyClock clock;
  std::vector<DriveSpec> drives;
  for (int i = 0; i < 2; ++i) {
    auto file = io::ExtentFile::create(directory.path(), {kDriveBytes, 0, true});
    ASSERT_TRUE(file.ok()) << file.status().message();
    DriveSpec& drive = drives.emplace_back();
    drive.name = "file" + std::to_string(i);
    drive.capacity_bytes = kDriveBytes;
    auto io = io::make_thread_io(file->fd(), file->is_direct(), 8);
    if (i == 1) {
      auto uring = io::open_uring_io(file->fd(), 8);
      if (uring.ok()) io = std::move(uring);
    }
    ASSERT_TRUE(io.ok()) << io.status().message();
    drive.io = testing::make_faulty_io(
        std::move(*io),
        testing::random_faults(GetParam() + i,
                               {.passing = 0.05, .partial = 0.1, .late = 0.1, .io_error = 0.005}));
    drive.file = std::move(*file);
  }
  StripedStoreOptions options;
  options.queue_depth = 4;
  options.request_bytes = 256 * kKiB;
  options.checksum = true;
  RandomRun(std::make_unique<StripedStore>(std::move(drives), options, clock), GetParam(), true)
      .run();
}

}  // namespace
}  // namespace teraio::storage
