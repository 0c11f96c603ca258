// Segments of device memory: registered once, kept while I/O uses them, deregistered in time.
#include "device/memory_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <thread>
#include <vector>

namespace teraio::device {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Records what is registered. A test can block it during a registration.
class NotingRegistrar final : public SegmentRegistrar {
 public:
  Status register_segment(const MemorySegment& segment) override {
    std::unique_lock lock(mutex_);
    ++call_count_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_up_; });
    if (refuses_) return Status(ErrorCode::kUnsupported, "no room");
    registered_.push_back(segment.begin);
    return {};
  }
  void deregister_segment(const MemorySegment& segment) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(std::count(registered_.begin(), registered_.end(), segment.begin), 1);
    std::erase(registered_, segment.begin);
  }

  void refuse() { refuses_ = true; }
  void hold_up() { set_held_up(true); }
  void go_on() { set_held_up(false); }
  void wait_for_call() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call_count_ > 0; });
  }
  int32_t call_count() const {
    const std::lock_guard lock(mutex_);
    return call_count_;
  }
  std::vector<std::byte*> registered() const {
    const std::lock_guard lock(mutex_);
    return registered_;
  }

 private:
  void set_held_up(bool is_held_up) {
    const std::lock_guard lock(mutex_);
    is_held_up_ = is_held_up;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> registered_;
  int32_t call_count_ = 0;
  bool is_held_up_ = false;
  bool refuses_ = false;
};

class MemorySegmentsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSegmentBytes = 1000;

  // Two adjacent segments, as a GPU provides them.
  void SetUp() override {
    segments_.add({first(), kSegmentBytes});
    segments_.add({second(), kSegmentBytes});
  }

  std::byte* first() { return memory_.data(); }
  std::byte* second() { return memory_.data() + kSegmentBytes; }
  MemorySegments::Use use(std::byte* memory, int64_t size_bytes = 10) {
    return segments_.use(registrar_, memory, size_bytes);
  }

  std::array<std::byte, 3 * kSegmentBytes> memory_;
  NotingRegistrar registrar_;
  MemorySegments segments_;
};

TEST_F(MemorySegmentsTest, ASegmentIsRegisteredByItsFirstUseAndOnlyThen) {
  EXPECT_THAT(registrar_.registered(), IsEmpty());
  EXPECT_EQ(use(first() + 100).begin(), first());
  EXPECT_EQ(use(first() + kSegmentBytes - 10).begin(), first());
  EXPECT_THAT(registrar_.registered(), ElementsAre(first()));
  EXPECT_EQ(use(second()).begin(), second());
  EXPECT_EQ(registrar_.call_count(), 2);
  EXPECT_EQ(segments_.counters().registered_count, 2);
  EXPECT_EQ(segments_.counters().registered_bytes, 2 * kSegmentBytes);
}

TEST_F(MemorySegmentsTest, MemoryOfNoSegmentOrOfTwoIsNotRegistered) {
  EXPECT_EQ(use(first() + 2 * kSegmentBytes).begin(), nullptr);
  EXPECT_EQ(use(first() + kSegmentBytes - 5).begin(), nullptr);
  EXPECT_EQ(use(second() + kSegmentBytes - 5).begin(), nullptr);
  EXPECT_EQ(registrar_.call_count(), 0);
}

TEST_F(MemorySegmentsTest, BytesAreCountedUpToTheBorderOfASegment) {
  const auto in_one = [&](const std::byte* memory, int64_t size_bytes) {
    return segments_.bytes_in_one_segment(memory, size_bytes);
  };
  EXPECT_EQ(in_one(first(), 7), 7);
  EXPECT_EQ(in_one(first() + 10, 5000), kSegmentBytes - 10);
  EXPECT_EQ(in_one(second() + kSegmentBytes - 1, 5000), 1);
  EXPECT_EQ(in_one(second() + kSegmentBytes, 500), 500) << "in none";
  segments_.remove(first());
  EXPECT_EQ(in_one(first() + 10, 5000), kSegmentBytes - 10) << "up to the next one";
}

TEST_F(MemorySegmentsTest, AddedOnceMoreItStaysRegistered) {
  use(first());
  segments_.add({first(), kSegmentBytes});
  use(first());
  EXPECT_EQ(registrar_.call_count(), 1);
}

TEST_F(MemorySegmentsTest, WhatGoesIsDeregisteredBefore) {
  use(first());
  use(second());
  segments_.remove(first());
  EXPECT_THAT(registrar_.registered(), ElementsAre(second()));
  EXPECT_EQ(segments_.counters().registered_bytes, kSegmentBytes);
  EXPECT_EQ(use(first()).begin(), nullptr);
  segments_.remove(first());  // has no effect
}

TEST_F(MemorySegmentsTest, TheSameAddressesComeBackAsAnotherSegment) {
  use(first());
  segments_.remove(first());
  segments_.add({first(), kSegmentBytes / 2});
  EXPECT_EQ(use(first() + kSegmentBytes / 2).begin(), nullptr);
  EXPECT_EQ(use(first()).begin(), first());
  EXPECT_EQ(registrar_.call_count(), 2);
}

TEST_F(MemorySegmentsTest, ItGoesOnlyWhenNobodyUsesIt) {
  std::atomic<bool> has_gone = false;
  std::thread owner;
  {
    const MemorySegments::Use in_use = use(first());
    owner = std::thread([&] {
      segments_.remove(first());
      has_gone = true;
    });
    // No new use starts while the segment is being removed.
    while (use(first()).begin() != nullptr) std::this_thread::yield();
    EXPECT_FALSE(has_gone);
    EXPECT_THAT(registrar_.registered(), ElementsAre(first()));
  }
  owner.join();
  EXPECT_THAT(registrar_.registered(), IsEmpty());
}

TEST_F(MemorySegmentsTest, OthersWaitForItsRegistrationAndOneRegisters) {
  registrar_.hold_up();
  std::vector<std::byte*> found(4);
  std::vector<std::thread> threads;
  for (std::byte*& begin : found) threads.emplace_back([&] { begin = use(first()).begin(); });
  registrar_.wait_for_call();
  EXPECT_EQ(segments_.bytes_in_one_segment(second(), 10), 10) << "the owner is not held up";
  segments_.remove(second());
  registrar_.go_on();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(found, ElementsAre(first(), first(), first(), first()));
  EXPECT_EQ(registrar_.call_count(), 1);
}

TEST_F(MemorySegmentsTest, AnOwnerWaitsForARegistrationUnderWay) {
  registrar_.hold_up();
  std::thread user([&] { use(first()); });
  registrar_.wait_for_call();
  std::thread owner([&] { segments_.remove(first()); });
  registrar_.go_on();
  user.join();
  owner.join();
  EXPECT_THAT(registrar_.registered(), IsEmpty());
}

TEST_F(MemorySegmentsTest, WhatIsRefusedIsNotTriedAgainWhileItIsThere) {
  registrar_.refuse();
  EXPECT_EQ(use(first()).begin(), nullptr);
  EXPECT_EQ(use(first()).begin(), nullptr);
  EXPECT_EQ(registrar_.call_count(), 1);
  EXPECT_EQ(segments_.counters().refused_count, 1);
  EXPECT_EQ(segments_.counters().registered_count, 0);
  segments_.remove(first());
}

TEST_F(MemorySegmentsTest, AnotherUsesWhatIsRegisteredAlready) {
  NotingRegistrar other;
  use(first());
  EXPECT_EQ(segments_.use(other, first(), 10).begin(), first());
  EXPECT_EQ(other.call_count(), 0);
}

TEST_F(MemorySegmentsTest, WhoGoesTakesItsRegistrationsAlong) {
  NotingRegistrar other;
  use(first());
  EXPECT_EQ(segments_.use(other, second(), 10).begin(), second());
  segments_.leave(registrar_);
  EXPECT_THAT(registrar_.registered(), IsEmpty());
  EXPECT_THAT(other.registered(), ElementsAre(second()));
  EXPECT_EQ(segments_.use(other, first(), 10).begin(), first()) << "registered anew";
}

TEST_F(MemorySegmentsTest, WhoGoesWaitsForOthersThatUseItsRegistrations) {
  NotingRegistrar other;
  use(first());
  std::thread leaving;
  {
    const MemorySegments::Use in_use = segments_.use(other, first(), 10);
    leaving = std::thread([&] { segments_.leave(registrar_); });
    EXPECT_THAT(registrar_.registered(), ElementsAre(first()));
  }
  leaving.join();
  EXPECT_THAT(registrar_.registered(), IsEmpty());
}

TEST_F(MemorySegmentsTest, ManyThreadsUseWhatComesAndGoes) {
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        const MemorySegments::Use in_use = use(first() + 10);
        if (in_use.begin() == nullptr) continue;
        const auto registered = registrar_.registered();
        EXPECT_EQ(std::count(registered.begin(), registered.end(), first()), 1);
      }
    });
  }
  for (int32_t i = 0; i < 200; ++i) {
    segments_.remove(first());
    segments_.add({first(), kSegmentBytes});
    std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  segments_.leave(registrar_);
  EXPECT_THAT(registrar_.registered(), IsEmpty());
}

}  // namespace
}  // namespace teraio::device
