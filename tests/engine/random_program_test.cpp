// Thousands of random operations against a model of the bytes: whatever the budget, the order in
// which transfers end and the faults, a use sees the bytes that were last written.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/units.h"
#include "engine/fixture/engine_session.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::kUnitBytes;
using testing::PlannedProgram;
using testing::ScriptedStore;
using testing::SessionOptions;
using testing::Tensors;

constexpr int64_t kSmallBytes = 8 * kKiB;
constexpr int kStepsPerProgram = 2000;
constexpr trace::OpIndex kOpsPerIteration = 30;

struct Faults {
  double read = 0;
  double write = 0;
};

class RandomProgram {
 public:
  RandomProgram(uint64_t seed, const SessionOptions& options, const Faults& faults)
      : random_(seed),
        options_(with_seed(options, seed)),
        is_reliable_(faults.read + faults.write == 0 && options.ssd_units >= 1000),
        session_(options_) {
    make_random(session_.ssd(), faults);
    if (options.host_units > 0) make_random(session_.host(), faults);
  }

  void run() {
    for (int i = 0; i < kStepsPerProgram && !::testing::Test::HasFailure(); ++i) step();
    check_everything();
  }

 private:
  // Addresses would make another program of the same seed.
  struct ById {
    bool operator()(const LiveTensor* a, const LiveTensor* b) const { return a->id < b->id; }
  };

  static SessionOptions with_seed(SessionOptions options, uint64_t seed) {
    options.seed = seed;
    options.poisons = seed % 2 == 0;
    options.op_duration_ns = 1'000'000;
    return options;
  }

  void make_random(ScriptedStore& store, const Faults& faults) {
    store.choose = [this](const auto& waiting) { return below(waiting.size()); };
    if (faults.read + faults.write == 0) return;
    store.fate = [this, faults](const storage::Transfer& transfer) {
      const double chance = transfer.direction == io::Direction::kRead ? faults.read : faults.write;
      return happens(chance) ? Status(ErrorCode::kIoError, "random") : Status();
    };
  }

  size_t below(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }
  bool happens(double chance) { return std::bernoulli_distribution(chance)(random_); }

  void step() {
    session_.ssd().can_cancel = happens(0.5);
    if (options_.host_units > 0) session_.host().can_cancel = happens(0.5);
    const size_t dice = below(200);
    if (dice < 40) return be_born();
    if (dice < 60) return die();
    if (dice < 70) return hold();
    if (dice < 80) return unpin();
    if (dice < 90) return let_transfers_end();
    if (dice < 91) return follow_something();
    if (dice < 92) return leave_all();
    if (dice < 102) return op_with_result();
    op();
  }

  int64_t random_bytes() {
    return happens(0.2) ? kSmallBytes : static_cast<int64_t>(1 + below(2)) * kUnitBytes;
  }

  // What the program has in mind is at most three times the budget.
  void be_born() {
    const int64_t size_bytes = random_bytes();
    if (total_bytes_ + size_bytes > 3 * options_.budget_units * kUnitBytes) return die();
    expect_success_if_it_fits(size_bytes, [&] {
      const Result<LiveTensor*> tensor = session_.try_born(size_bytes);
      if (!tensor.ok()) return tensor.status();
      live_.push_back(*tensor);
      total_bytes_ += size_bytes;
      return happens(0.8) ? session_.use({*tensor}) : Status();
    });
  }
  void die() {
    if (live_.empty()) return;
    LiveTensor* tensor = live_[below(live_.size())];
    if (held_.contains(tensor)) return;
    total_bytes_ -= tensor->size_bytes;
    std::erase(live_, tensor);
    session_.die(tensor);
  }

  void hold() {
    if (live_.empty() || held_.size() >= 2) return;
    LiveTensor* tensor = live_[below(live_.size())];
    expect_success_if_it_fits(tensor->size_bytes, [&] {
      TERAIO_RETURN_IF_ERROR(session_.engine().pin(tensor));
      ++held_[tensor];
      session_.expect_bytes(*tensor);
      if (happens(0.5)) {
        EXPECT_TRUE(session_.engine().mark_written(tensor).ok());
        session_.write_bytes(*tensor);
      }
      return Status();
    });
  }
  void unpin() {
    if (held_.empty()) return;
    const auto entry = held_.begin();
    session_.expect_bytes(*entry->first);
    session_.engine().unpin(entry->first);
    if (--entry->second == 0) held_.erase(entry);
  }

  void op() {
    const auto [reads, writes] = random_operands();
    expect_success_if_it_fits(bytes_of(reads) + bytes_of(writes),
                              [&] { return session_.op(next_position(), reads, writes); });
  }
  void op_with_result() {
    const auto [reads, writes] = random_operands();
    const trace::OpIndex position = next_position();
    const int64_t size_bytes = random_bytes();
    expect_success_if_it_fits(bytes_of(reads) + bytes_of(writes) + size_bytes, [&] {
      TERAIO_RETURN_IF_ERROR(session_.begin(position, reads, writes));
      const Result<LiveTensor*> result = session_.try_born(size_bytes);
      session_.end(position, reads, writes);
      if (!result.ok()) return result.status();
      live_.push_back(*result);
      total_bytes_ += size_bytes;
      return Status();
    });
  }
  std::pair<Tensors, Tensors> random_operands() {
    Tensors picked = live_;
    std::shuffle(picked.begin(), picked.end(), random_);
    picked.resize(std::min(picked.size(), below(5)));
    const size_t read_count = below(picked.size() + 1);
    const auto middle = picked.begin() + static_cast<ptrdiff_t>(read_count);
    return {Tensors(picked.begin(), middle), Tensors(middle, picked.end())};
  }
  static int64_t bytes_of(const Tensors& tensors) {
    int64_t total_bytes = 0;
    for (const LiveTensor* tensor : tensors) total_bytes += tensor->size_bytes;
    return total_bytes;
  }

  // Mostly the next of the profile; sometimes the program is lost for an op.
  trace::OpIndex next_position() {
    if (session_.engine().plan().schedule().is_empty() || happens(0.1)) return iteration::kLost;
    if (position_ == kOpsPerIteration) {
      session_.engine().plan().start_iteration();
      position_ = 0;
    }
    return position_++;
  }

  // A profile and a plan that have little to do with the program: that costs time, never bytes.
  void follow_something() {
    PlannedProgram program;
    std::vector<trace::TensorIndex> known;
    for (const LiveTensor* tensor : live_)
      if (happens(0.7)) known.push_back(program.persistent(*tensor));
    known.push_back(program.born(1));
    const auto any = [&] { return known[below(known.size())]; };
    for (trace::OpIndex op = 0; op < kOpsPerIteration; ++op) program.op({any(), any()}, {any()});
    for (int i = 0; i < 40; ++i) {
      const auto trigger = static_cast<trace::OpIndex>(below(kOpsPerIteration));
      if (happens(0.4))
        program.offload(any(), trigger, happens(0.5) ? plan::Tier::kSsd : plan::Tier::kHost);
      if (happens(0.2)) program.drop(any(), trigger);
      if (happens(0.4))
        program.prefetch(any(), trigger, static_cast<trace::OpIndex>(below(kOpsPerIteration)));
    }
    session_.engine().plan().follow(program.shared_schedule());
    session_.engine().plan().lay_out();
    position_ = 0;
  }

  void let_transfers_end() {
    for (size_t count = below(4); count > 0; --count) session_.ssd().end_one();
  }
  void leave_all() {
    const Status status = session_.engine().evict_everything();
    if (is_reliable_) {
      EXPECT_EQ(status, Status());
    }
  }

  // Where nothing breaks, an op fails only when what cannot leave takes the room.
  template <typename Act>
  void expect_success_if_it_fits(int64_t size_bytes, Act act) {
    const int64_t taken_bytes = session_.engine().unmovable_bytes();
    const bool fits = taken_bytes + size_bytes <= options_.budget_units * kUnitBytes;
    const Status status = act();
    if (is_reliable_ && fits) {
      EXPECT_EQ(status, Status()) << status.message();
    }
  }

  void check_everything() {
    while (!held_.empty()) unpin();
    session_.ssd().heal();
    if (options_.host_units > 0) session_.host().heal();
    session_.device().set_budget_bytes(100 * options_.budget_units * kUnitBytes);
    ASSERT_EQ(session_.engine().restore_all(), Status());
    for (LiveTensor* tensor : live_) session_.expect_bytes(*tensor);
    EXPECT_EQ(session_.ssd().counters().reserved_bytes, 0);
    EXPECT_EQ(session_.engine().amounts().offloaded_bytes, 0);
    if (is_reliable_) {
      EXPECT_GT(session_.ssd().counters().bytes_read, 0) << "it has tested little";
    }
  }

  std::mt19937_64 random_;
  const SessionOptions options_;
  const bool is_reliable_;
  EngineSession session_;
  Tensors live_;
  int64_t total_bytes_ = 0;
  std::map<LiveTensor*, int, ById> held_;
  trace::OpIndex position_ = 0;
};

class RandomProgramTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomProgramTest, ReliableTiers) {
  const auto budget_units = static_cast<int64_t>(12 + GetParam() % 7);
  RandomProgram(GetParam(), {.budget_units = budget_units}, {}).run();
}

TEST_P(RandomProgramTest, TwoTiers) {
  RandomProgram(GetParam(), {.budget_units = 12, .host_units = 6}, {}).run();
}

TEST_P(RandomProgramTest, ReadsThatFail) {
  RandomProgram(GetParam(), {.budget_units = 12}, {.read = 0.1}).run();
}

TEST_P(RandomProgramTest, WritesThatFail) {
  RandomProgram(GetParam(), {.budget_units = 12, .host_units = 20}, {.read = 0.02, .write = 0.01})
      .run();
}

TEST_P(RandomProgramTest, TiersThatAreFull) {
  RandomProgram(GetParam(), {.budget_units = 12, .ssd_units = 6, .host_units = 2}, {}).run();
}

// Each device has programs of its own, one of them with poisoned memory.
uint64_t first_seed() {
  if (testing::test_device_name() == "stepped") return 3;
  return testing::test_device_name() == "cuda" ? 5 : 1;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramTest, ::testing::Range(first_seed(), first_seed() + 2),
                         [](const auto& info) { return "seed" + std::to_string(info.param); });

}  // namespace
}  // namespace teraio::engine
