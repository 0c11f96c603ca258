// Tensors that are discarded and made again by running the op that made them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/fixture/runtime_session.h"
#include "runtime/runtime.h"

namespace teraio::runtime {
namespace {

using testing::CheckingReplayer;
using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::RuntimeSessionOptions;
using testing::Tensors;

RuntimeSessionOptions discarding(int64_t budget_units = 100) {
  RuntimeSessionOptions options;
  options.budget_units = budget_units;
  options.can_replay = true;
  options.discard_after_every_op = true;
  return options;
}

// x makes y, y makes z. Whatever can be discarded is.
class ReplaysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    x_ = session_.born();
    session_.op(1, {x_});
    y_ = session_.op(2, {x_}, {}, 1);
    z_ = session_.op(3, {y_}, {}, 1);
    ASSERT_EQ(y_->residency, engine::Residency::kDiscarded);
    ASSERT_EQ(z_->residency, engine::Residency::kDiscarded);
    ASSERT_EQ(runtime().figures().discarded_bytes, 2 * kUnitBytes);
  }
  Runtime& runtime() { return session_.runtime(); }
  int run_count() { return std::exchange(session_.replayer().run_count, 0); }
  int64_t device_bytes() { return session_.device().allocated_bytes(); }

  RuntimeSession session_{discarding()};
  engine::LiveTensor* x_ = nullptr;
  engine::LiveTensor* y_ = nullptr;
  engine::LiveTensor* z_ = nullptr;
};

TEST_F(ReplaysTest, AnOpThatReadsADiscardedTensorSeesItsBytes) {
  run_count();
  session_.op(4, {z_});  // checks them
  EXPECT_EQ(run_count(), 2) << "of y, which z is made from, and of z";
  EXPECT_EQ(runtime().figures().counters.replays.on_demand, 2);
  EXPECT_GT(runtime().figures().counters.replays.duration_ns, 0);
  EXPECT_EQ(runtime().figures().natural_peak_bytes, 3 * kUnitBytes);
}

TEST_F(ReplaysTest, WhatHasNoRecipeStays) {
  EXPECT_EQ(x_->residency, engine::Residency::kResident);
  session_.op(4, {}, {y_});  // more than its op has written it
  session_.op(5, {y_});
  EXPECT_EQ(y_->residency, engine::Residency::kResident);
}

TEST_F(ReplaysTest, BeforeAnInputChangesWhatIsMadeFromItIsMadeAgain) {
  session_.op(4, {}, {x_});
  session_.op(5, {y_, z_});  // checks the bytes of before
  EXPECT_EQ(y_->residency, engine::Residency::kResident) << "nothing makes it again any more";
}

TEST_F(ReplaysTest, BeforeAnInputMayChangeUnseenWhatIsMadeFromItIsMadeAgain) {
  ASSERT_TRUE(runtime().pin_permanently(x_).ok());
  session_.write_bytes(*x_);
  session_.op(5, {y_, z_});
  EXPECT_EQ(y_->residency, engine::Residency::kResident);
}

TEST_F(ReplaysTest, AHeldInputMayChange) {
  ASSERT_TRUE(runtime().pin(x_, /*is_write=*/true).ok());
  session_.write_bytes(*x_);
  runtime().unpin(x_, /*is_write=*/true);
  session_.op(5, {y_, z_});
}

TEST_F(ReplaysTest, WhatIsMadeFromAHeldTensorStays) {
  ASSERT_TRUE(runtime().pin(x_, /*is_write=*/true).ok());
  engine::LiveTensor* made = session_.op(4, {x_}, {}, 1);
  EXPECT_EQ(made->residency, engine::Residency::kResident);
  session_.write_bytes(*x_);
  runtime().unpin(x_, /*is_write=*/true);
  session_.op(5, {x_, made});
  EXPECT_EQ(made->residency, engine::Residency::kResident);
}

TEST_F(ReplaysTest, ADroppedInputWithARecipeIsMadeForAMoment) {
  session_.die(y_);
  EXPECT_EQ(device_bytes(), kUnitBytes) << "of x";
  run_count();
  session_.op(4, {z_});
  EXPECT_EQ(run_count(), 2);
  session_.op(5, {x_});
  EXPECT_EQ(device_bytes(), kUnitBytes);
}

TEST_F(ReplaysTest, ADroppedInputWithoutARecipeStaysAsLongAsItIsNeeded) {
  session_.die(x_);
  EXPECT_EQ(device_bytes(), kUnitBytes) << "x stays";
  session_.op(4, {z_});
  session_.die(y_);
  EXPECT_EQ(device_bytes(), kUnitBytes) << "for z";
  session_.die(z_);
  EXPECT_EQ(device_bytes(), 0);
}

TEST_F(ReplaysTest, AKeptInputGoesWhenWhatNeedsItIsThere) {
  session_.die(x_);
  EXPECT_EQ(device_bytes(), kUnitBytes) << "x stays";
  ASSERT_TRUE(runtime().pin(y_).ok());
  EXPECT_EQ(device_bytes(), kUnitBytes) << "y alone";
  session_.expect_bytes(*y_);
  runtime().unpin(y_);
}

TEST_F(ReplaysTest, AReplayThatFailsFailsTheOpAndLosesNothing) {
  session_.replayer().failure = Status(ErrorCode::kOutOfMemory, "no room for the result");
  engine::OpFrame frame = RuntimeSession::frame({z_});
  const Status status = runtime().begin_op(frame, 4).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(status.message(), "no room for the result");
  session_.replayer().failure = Status();
  session_.op(5, {z_});
}

TEST_F(ReplaysTest, BeforeAnotherStreamMayChangeAnInputWhatIsMadeFromItIsMadeAgain) {
  const engine::Use use = {x_, true};
  runtime().record_stream(session_.other_stream(), std::span(&use, 1));
  session_.write_bytes(*x_);
  session_.op(4, {y_, z_});
}

TEST_F(ReplaysTest, WhatCouldNotBeMadeAgainBeforeItsInputChangedIsLostAndNeverWrong) {
  session_.replayer().failure = Status(ErrorCode::kOutOfMemory, "no room for the result");
  const engine::Use use = {x_, true};
  runtime().record_stream(session_.other_stream(), std::span(&use, 1));
  session_.write_bytes(*x_);
  session_.replayer().failure = Status();
  engine::OpFrame frame = RuntimeSession::frame({y_});
  const Status status = runtime().begin_op(frame, 4).status();
  EXPECT_NE(status.message().find("has changed, and a discarded tensor is made from it"),
            std::string::npos)
      << status.message();
  session_.op(5, {x_});
}

TEST_F(ReplaysTest, AtTheEndEverythingIsMadeAgain) {
  ASSERT_TRUE(runtime().replay_all().ok());
  session_.op(4, {z_});
  EXPECT_EQ(runtime().figures().discarded_bytes, 0) << "and nothing is discarded any more";
  ASSERT_TRUE(runtime().stop().ok());
  session_.expect_bytes(*y_);
  session_.expect_bytes(*z_);
}

TEST_F(ReplaysTest, TheEndMayComeBeforeWhatAReplayHasMadeIsReleased) {
  session_.replayer().before_release = [&] {
    session_.replayer().before_release = nullptr;
    ASSERT_TRUE(runtime().replay_all().ok());
    EXPECT_EQ(runtime().figures().discarded_bytes, 0);
  };
  session_.op(4, {y_});
  session_.op(5, {z_});
}

TEST_F(ReplaysTest, NothingIsWantedOfAnOpAfterTheEnd) {
  engine::OpFrame frame = RuntimeSession::frame({x_});
  const Result<engine::OpRequests> before = runtime().begin_op(frame, 4);
  ASSERT_TRUE(before.ok());
  runtime().end_op(frame, "op", 4, {});
  ASSERT_TRUE(before->is_replay_wanted && before->is_replay_planned && before->is_origin_wanted);
  ASSERT_TRUE(runtime().replay_all().ok());
  ASSERT_TRUE(runtime().stop().ok());
  const Result<engine::OpRequests> after = runtime().begin_op(frame, 5);
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after->is_replay_wanted || after->is_replay_planned || after->is_origin_wanted);
}

TEST_F(ReplaysTest, AnEndWithoutReplaysNamesWhatIsLost) {
  session_.replayer().failure = Status(ErrorCode::kOutOfMemory, "no room for the result");
  EXPECT_EQ(runtime().replay_all().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(runtime().figures().discarded_bytes, 2 * kUnitBytes);
}

TEST_F(ReplaysTest, TheEndNamesWhatCannotBeMadeAgainAndMakesTheRest) {
  engine::LiveTensor* const w = session_.op(4, {x_}, {}, 1);
  ASSERT_EQ(w->residency, engine::Residency::kDiscarded);
  CheckingReplayer& replayer = session_.replayer();
  int failing_count = 2;  // y, and y once more for z
  std::function<void()> fail = [&] {
    replayer.failure =
        failing_count-- > 0 ? Status(ErrorCode::kIoError, "drive7 is gone") : Status();
    replayer.meanwhile = fail;
  };
  replayer.meanwhile = fail;
  ASSERT_TRUE(runtime().replay_all().ok());
  const Status status = runtime().stop();
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  EXPECT_EQ(
      status.message(),
      fmt::format("2 of 4 tensors did not come back: {} (65.5 kB), {} (65.5 kB): drive7 is gone",
                  y_->id, z_->id));
  session_.expect_bytes(*w);
}

RuntimeSessionOptions verifying() {
  RuntimeSessionOptions options = discarding();
  options.verify_replays = true;
  return options;
}

TEST(VerifiedReplays, EqualBytesAreCounted) {
  RuntimeSession session(verifying());
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  engine::LiveTensor* y = session.op(2, {x}, {}, 3);
  session.op(3, {y});
  session.op(4, {y});
  EXPECT_EQ(session.runtime().figures().counters.replays.verified, 2);
  EXPECT_EQ(session.runtime().figures().counters.replays.differing, 0);
}

TEST(VerifiedReplays, OtherBytesAreAnErrorThatNamesTheOpAndNobodySeesThem) {
  RuntimeSession session(verifying());
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  engine::LiveTensor* y = session.op(2, {x}, {}, 1);
  session.replayer().error = 1;
  engine::OpFrame frame = RuntimeSession::frame({y});
  const Status status = session.runtime().begin_op(frame, 3).status();
  EXPECT_NE(status.message().find("made other bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("of op 0"), std::string::npos) << status.message();
  EXPECT_EQ(session.runtime().figures().counters.replays.differing, 1);
  EXPECT_EQ(y->residency, engine::Residency::kDiscarded);
  session.replayer().error = 0;
  session.op(3, {y});
}

// An op waits for a replay, and another thread ends the iteration and goes on with shorter ones.
TEST(Replays, AnOpMayBeginAfterItsIteration) {
  RuntimeSession session(discarding());
  Runtime& runtime = session.runtime();
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  const auto run_ops = [&](uint64_t kind, uint64_t count) {
    runtime.begin_step();
    for (uint64_t i = 0; i < count; ++i) session.op(kind * 1'000'000 + i, {x});
  };
  const auto steps = [&](uint64_t kind, uint64_t count) {
    for (int i = 0; i < 4; ++i) {
      run_ops(kind, count);
      runtime.end_step();
    }
  };
  engine::LiveTensor* y = session.op(2, {x}, {}, 1);
  steps(1, 100);
  run_ops(1, 99);
  ASSERT_EQ(y->residency, engine::Residency::kDiscarded);
  session.replayer().meanwhile = [&] {
    std::thread([&] {
      runtime.end_step();
      steps(2, 3);
    }).join();
  };
  engine::OpFrame frame = RuntimeSession::frame({y});
  ASSERT_TRUE(runtime.begin_op(frame, 1'000'099).ok());
  ASSERT_EQ(runtime.knowledge().trace->ops.size(), 3u);
  session.expect_bytes(*y);
  runtime.end_op(frame, "op", 1'000'099, {});
  session.op(3, {x, y});
}

TEST(Replays, LongChainsAreCutAndNothingIsLost) {
  RuntimeSession session(discarding());
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  engine::LiveTensor* last = session.op(2, {x}, {}, 1);
  for (uint64_t i = 0; i < 50; ++i) {
    engine::LiveTensor* next = session.op(3 + i, {last}, {}, 1);
    session.die(std::exchange(last, next));
  }
  session.replayer().run_count = 0;
  session.op(100, {last});
  EXPECT_LE(session.replayer().run_count, 10);
  EXPECT_LE(session.device().allocated_bytes(), 3 * kUnitBytes);
}

// Levels of six tensors, each made from all of the level before, which the program drops in either
// order. There are 6 ^ 9 ways from the last level to the first one.
void make_from_levels(bool drops_newest_first) {
  constexpr size_t kWidth = 6;
  constexpr size_t kLevels = 10;
  RuntimeSession session(discarding());
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  std::vector<Tensors> levels = {{x}};
  uint64_t op = 2;
  const auto drop = [&](size_t level) {
    for (engine::LiveTensor* tensor : levels[level]) session.die(tensor);
  };
  while (levels.size() < kLevels) {
    Tensors next;
    while (next.size() < kWidth) next.push_back(session.op(op++, levels.back(), {}, 1));
    levels.push_back(std::move(next));
    if (!drops_newest_first) drop(levels.size() - 2);
  }
  if (drops_newest_first)
    for (size_t level = kLevels - 1; level-- > 0;) drop(level);
  session.replayer().run_count = 0;
  session.op(op++, {levels.back().front()});  // checks its bytes
  EXPECT_LE(session.replayer().run_count, static_cast<int>(kWidth * kLevels));
  session.op(op++, {}, {levels.back().back()});  // looks for what is made from it
}

TEST(Replays, WhatManyReadIsMadeOnceForAllOfThem) { make_from_levels(false); }

TEST(Replays, SoItIsWhereTheNewestTensorsGoFirst) { make_from_levels(true); }

// Of three units, `both` needs all, and what is made from it and from `first` needs `first` again.
TEST(Replays, WhereMemoryIsShortWhatManyReadIsMadeForEachOfThem) {
  RuntimeSession session(discarding(3));
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  engine::LiveTensor* first = session.op(2, {x}, {}, 1);
  engine::LiveTensor* left = session.op(3, {first}, {}, 1);
  engine::LiveTensor* right = session.op(4, {first}, {}, 1);
  engine::LiveTensor* both = session.op(5, {left, right}, {}, 1);
  engine::LiveTensor* last = session.op(6, {both, first}, {}, 1);
  for (engine::LiveTensor* tensor : {first, left, right, both}) session.die(tensor);
  ASSERT_EQ(last->residency, engine::Residency::kDiscarded);
  session.replayer().run_count = 0;
  session.op(7, {last});  // checks its bytes
  EXPECT_GT(session.replayer().run_count, 5);
}

TEST(Replays, TwoThreadsThatShareTensorsSeeTheirBytes) {
  RuntimeSession session(discarding());
  engine::LiveTensor* x = session.born();
  session.op(1, {x});
  Tensors made;
  for (uint64_t i = 0; i < 8; ++i)
    made.push_back(session.op(2 + i, {i == 0 ? x : made.back()}, {}, 1));
  const auto read = [&](size_t first) {
    for (size_t i = 0; i < 200; ++i) {
      engine::OpFrame frame = RuntimeSession::frame({made[(first + i * 3) % made.size()]});
      ASSERT_TRUE(session.runtime().begin_op(frame, 20).ok());
      session.expect_bytes(*frame.uses[0].tensor);
      session.runtime().end_op(frame, "read", 20, {});
    }
  };
  std::thread other(read, 0);
  read(5);
  other.join();
  EXPECT_GT(session.runtime().figures().counters.replays.on_demand, 0);
}

// Ops that read, write, make, hold and drop tensors at random.
class RandomReplays {
 public:
  RandomReplays(uint64_t seed, const RuntimeSessionOptions& options)
      : random_(seed), session_(options) {}

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
    if (below(2) == 0) EXPECT_TRUE(session_.runtime().replay_all().ok());
    while (!tensors_.empty()) drop();
    EXPECT_EQ(session_.device().allocated_bytes(), 0) << "dropped tensors are kept for ever";
  }
  int64_t discard_count() { return session_.runtime().figures().counters.replays.discards; }

 private:
  size_t below(size_t count) { return random_() % count; }
  engine::LiveTensor* any() { return tensors_[below(tensors_.size())]; }

  Tensors some() {
    Tensors chosen;
    for (size_t i = below(3) + 1; i > 0; --i)
      if (engine::LiveTensor* tensor = any();
          std::find(chosen.begin(), chosen.end(), tensor) == chosen.end())
        chosen.push_back(tensor);
    return chosen;
  }

  void drop() {
    const size_t i = below(tensors_.size());
    session_.die(tensors_[i]);
    tensors_.erase(tensors_.begin() + static_cast<ptrdiff_t>(i));
  }

  void step() {
    const size_t kind = below(10);
    if (tensors_.size() < 3) {
      tensors_.push_back(session_.born());
    } else if (kind < 5) {
      tensors_.push_back(session_.op(random_(), some(), {}, static_cast<int64_t>(below(2)) + 1));
    } else if (kind < 6) {
      session_.op(random_(), {}, {any()});
    } else if (kind < 7) {
      session_.op(random_(), some());
    } else if (kind < 8) {
      hold(any());
    } else {
      drop();
    }
    if (tensors_.size() > 12) drop();
  }

  void hold(engine::LiveTensor* tensor) {
    const bool is_write = below(2) == 0;
    ASSERT_TRUE(session_.runtime().pin(tensor, is_write).ok());
    session_.expect_bytes(*tensor);
    if (is_write) session_.write_bytes(*tensor);
    if (!is_write && below(2) == 0) tensors_.push_back(session_.op(random_(), {tensor}, {}, 1));
    session_.runtime().unpin(tensor, is_write);
  }

  std::mt19937_64 random_;
  RuntimeSession session_;
  Tensors tensors_;
};

TEST(RandomReplays, EveryUseSeesTheBytesThatWereLastWritten) {
  int64_t discard_count = 0;
  for (uint64_t seed = 0; seed < 16 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RuntimeSessionOptions options = discarding();
    options.evict_after_every_op = seed % 2 == 1;
    RandomReplays program(seed, options);
    program.run(200);
    discard_count += program.discard_count();
  }
  EXPECT_GT(discard_count, 160);
}

}  // namespace
}  // namespace teraio::runtime
