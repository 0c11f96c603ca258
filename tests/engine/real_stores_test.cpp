// The engine over the tiers that a run has, with their threads, staging and files: thousands of
// random ops, every byte checked by compute.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/fixture/real_engine.h"
#include "io/extent_file.h"
#include "io/thread_io.h"
#include "storage/host_store.h"
#include "storage/striped_store.h"
#include "testing/faulty_io.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::PlannedProgram;

constexpr int64_t kBudgetBytes = 12 * kUnitBytes;
constexpr int64_t kHostBytes = 8 * kUnitBytes;
constexpr int kOps = 1500;
constexpr trace::OpIndex kStepOps = 30;

struct Setting {
  std::string name;
  bool evicts_after_every_op = false;
  uint64_t seed = 1;
  bool has_failing_drive = false;  // one of three: it takes a few requests, then no more writes
};

class RealStoresTest : public testing::RealEngine, public ::testing::WithParamInterface<Setting> {
 protected:
  void SetUp() override {
    open_device(kBudgetBytes, GetParam().seed);
    if (GetParam().has_failing_drive) {
      open_failing_drives();
    } else {
      open_ssd({.capacity_bytes = 100 * kUnitBytes, .request_bytes = kUnitBytes / 2});
    }
    ASSERT_NE(ssd_, nullptr);
    auto host = storage::open_host_store(kHostBytes, device_->device(), clock_);
    ASSERT_TRUE(host.ok()) << host.status().message();
    host_ = std::move(*host);
    open_engine();
  }

  void open_failing_drives() {
    storage::StripedStoreOptions options;
    options.request_bytes = kUnitBytes / 2;
    std::vector<storage::DriveSpec> drives(3);
    for (size_t i = 0; i < drives.size(); ++i) {
      drives[i].name = "drive" + std::to_string(i);
      drives[i].capacity_bytes = 40 * kUnitBytes;
      auto file =
          io::ExtentFile::create(directory_.path(), {.size_bytes = drives[i].capacity_bytes});
      ASSERT_TRUE(file.ok()) << file.status().message();
      drives[i].file = std::move(*file);
      auto io = io::make_thread_io(drives[i].file.fd(), drives[i].file.is_direct(),
                                   2 * options.queue_depth);
      ASSERT_TRUE(io.ok()) << io.status().message();
      drives[i].io = i == 1 ? make_failing(std::move(*io)) : std::move(*io);
    }
    ssd_ = std::make_unique<storage::StripedStore>(std::move(drives), options, clock_);
  }

  static std::unique_ptr<io::DriveIo> make_failing(std::unique_ptr<io::DriveIo> io) {
    const auto schedule = [count = 0](const io::IoRequest& request) mutable {
      const bool fails = request.direction == io::Direction::kWrite && ++count > 20;
      return fails ? std::optional(testing::Fault{.error_number = EIO}) : std::nullopt;
    };
    return testing::make_faulty_io(std::move(io), schedule);
  }

  size_t below(size_t count) { return random_() % count; }

  void be_born() { live_.push_back(born(1 + static_cast<int64_t>(below(3)))); }
  void die_at(size_t index) {
    die(live_[index]);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
  }
  void any_op() {
    std::vector<Use> uses;
    for (size_t i = 0; i < 2 && !live_.empty(); ++i) {
      LiveTensor* tensor = live_[below(live_.size())];
      if (uses.empty() || uses[0].tensor != tensor) uses.push_back({tensor, below(3) == 0});
    }
    op(next_position(), uses);
  }

  // Plans that have little to do with what happens: planned copies come in any order, are
  // displaced, or are still there when the next plan is adopted. That costs time, never bytes.
  void follow_something() {
    PlannedProgram program;
    std::vector<trace::TensorIndex> known;
    for (const LiveTensor* tensor : live_)
      if (below(2) == 0) known.push_back(program.persistent(*tensor));
    for (int i = 0; i < 8; ++i) known.push_back(program.born(1 + static_cast<int64_t>(below(3))));
    const auto any = [&] { return known[below(known.size())]; };
    for (trace::OpIndex op = 0; op < kStepOps; ++op) program.op({any(), any()});
    for (int i = 0; i < 40; ++i) {
      const auto trigger = static_cast<trace::OpIndex>(below(kStepOps));
      program.offload(any(), trigger, below(3) > 0 ? plan::Tier::kSsd : plan::Tier::kHost);
      program.prefetch(any(), trigger, static_cast<trace::OpIndex>(below(kStepOps)));
    }
    engine_->plan().follow(program.shared_schedule());
    engine_->plan().lay_out();
    position_ = 0;
    is_laid_out_ |= ssd_->counters().laid_out_bytes > 0;
  }
  // Mostly the next of the profile; sometimes the program is lost for an op.
  trace::OpIndex next_position() {
    if (engine_->plan().schedule().is_empty() || below(10) == 0) return iteration::kLost;
    if (position_ == kStepOps) {
      engine_->plan().start_iteration();
      position_ = 0;
    }
    return position_++;
  }

  std::mt19937_64 random_{GetParam().seed};
  std::vector<LiveTensor*> live_;
  trace::OpIndex position_ = 0;
  bool is_laid_out_ = false;
};

TEST_P(RealStoresTest, EveryUseSeesWhatWasLastWritten) {
  for (int i = 0; i < kOps && !HasFatalFailure(); ++i) {
    if (live_.size() < 15 && below(3) == 0) be_born();
    if (live_.size() > 4 && below(4) == 0) die_at(below(live_.size()));
    if (below(100) == 0) follow_something();
    any_op();
    if (GetParam().evicts_after_every_op) {
      ASSERT_EQ(engine_->evict_everything(), Status());
    }
  }
  if (GetParam().has_failing_drive) {
    EXPECT_GT(engine_->counters().failed_transfers, 0);
    const int64_t written_bytes = ssd_->counters().bytes_written;
    for (int i = 0; i < 9; ++i) be_born();  // more than the host tier holds
    ASSERT_EQ(engine_->evict_everything(), Status());
    EXPECT_GT(ssd_->counters().bytes_written, written_bytes) << "the other drives are used";
    return;
  }
  EXPECT_GT(ssd_->counters().bytes_read, 0);
  EXPECT_GT(host_->counters().bytes_read, 0);
  EXPECT_TRUE(is_laid_out_);
}

// Order by seed matters where compute and copies are late, and the failing drive reads host memory.
std::vector<Setting> settings() {
  if (testing::test_device_name() == "cpu")
    return {{"any"}, {"failing6", false, 6, true}, {"failing7", false, 7, true}};
  return {{"any1"}, {"any2", false, 2}, {"stress3", true, 3}};
}

INSTANTIATE_TEST_SUITE_P(Settings, RealStoresTest, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace teraio::engine
