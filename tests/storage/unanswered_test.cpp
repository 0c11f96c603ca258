// Drives that do not answer within the store's time limit, step by step on virtual time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "storage/gated_store.h"
#include "testing/stepped_device.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Submitted;

constexpr int64_t kUnansweredBytes = kStripedBytes / 2;
constexpr int64_t kTimeoutNs = 30'000'000'000;

class Unanswered : public testing::GatedStore {
 protected:
  void open(size_t drive_count, int64_t io_timeout_ns = kTimeoutNs, int32_t queue_depth = 1) {
    GatedStore::open(std::vector(drive_count, 1.0), options_with(io_timeout_ns, queue_depth));
  }
  static StripedStoreOptions options_with(int64_t io_timeout_ns, int32_t queue_depth) {
    StripedStoreOptions options;
    options.request_bytes = kUnansweredBytes;
    options.queue_depth = queue_depth;
    options.io_timeout_ns = io_timeout_ns;
    return options;
  }

  // Extents over all drives.
  int64_t size_bytes() const { return kUnansweredBytes * static_cast<int64_t>(drive_count()); }
  Extent written() { return GatedStore::written(size_bytes()); }
  Extent reserved() { return session().reserve(size_bytes()); }

  Submitted start(io::Direction direction, const Extent& extent) {
    return session().submit(direction, extent, memory());
  }
  // All drives have begun as much as may be in flight.
  void begin() {
    for (size_t drive = 0; drive < drive_count(); ++drive) gate(drive).begun();
  }
  // The store knows of the answers on return.
  void let_answer(size_t drive) {
    gate(drive).open();
    gate(drive).begun();
  }
  void pass_time(int64_t duration_ns) {
    GatedStore::pass_time(duration_ns);
    store().fail_unanswered();
  }
  int32_t call_count(const Submitted& submitted) {
    return session().completions().call_count(submitted.ticket);
  }
};

TEST_F(Unanswered, AWriteFailsAfterTheLimitAndEndsWhenTheDriveAnswers) {
  open(2);
  const Extent extent = reserved();
  const Submitted write = start(io::Direction::kWrite, extent);
  begin();
  let_answer(1);
  pass_time(kTimeoutNs - 1);
  EXPECT_EQ(call_count(write), 0);
  pass_time(1);
  const Completion failure = session().wait(write);
  EXPECT_TRUE(failure.is_unanswered);
  EXPECT_EQ(failure.status.code(), ErrorCode::kIoError);
  EXPECT_THAT(failure.status.message(),
              AllOf(HasSubstr("drive drive0 has not answered a write"), HasSubstr("30.00 s")));
  EXPECT_EQ(store().counters().drives[0].unanswered_count, 1);
  EXPECT_EQ(store().counters().drives[1].unanswered_count, 0);
  gate(0).open();
  const Completion end = session().completions().wait_for_calls(write.ticket, 2);
  EXPECT_FALSE(end.is_unanswered);
  EXPECT_EQ(end.status, failure.status);
  store().release(extent);
}

// A device may have hours of compute before a write, as when it waits for another rank.
TEST_F(Unanswered, ADriveIsGivenItsTimeOnceComputeIsThere) {
  testing::SteppedDevice device({.progress = testing::Progress::kManual});
  StripedStoreOptions options = options_with(kTimeoutNs, /*queue_depth=*/1);
  options.device = &device;
  GatedStore::open({1.0}, options);
  const Extent extent = reserved();
  const Submitted write = session().submit({.direction = io::Direction::kWrite,
                                            .extent = extent,
                                            .memory = memory().data(),
                                            .ready = device.record()});
  begin();
  pass_time(10 * kTimeoutNs);
  EXPECT_THAT(store().unanswered(1), IsEmpty());
  device.run_all();
  pass_time(1);
  pass_time(kTimeoutNs - 1);
  EXPECT_EQ(call_count(write), 0);
  pass_time(1);
  EXPECT_TRUE(session().wait(write).is_unanswered) << "a drive that hangs is still found";
}

TEST_F(Unanswered, NewExtentsAreOnTheOtherDrives) {
  open(2);
  const Extent hung = reserved();
  start(io::Direction::kWrite, hung);
  begin();
  let_answer(1);
  pass_time(kTimeoutNs);
  const Extent extent = reserved();
  EXPECT_TRUE(store().takes_writes(extent));
  EXPECT_FALSE(store().takes_writes(hung));
  EXPECT_THAT(store().pieces(extent), Each(Field(&Piece::drive, 1)));
  EXPECT_TRUE(session().wait(start(io::Direction::kWrite, extent)).status.ok());
}

TEST_F(Unanswered, WhatWaitsForTheDriveFailsAtOnceAndDoesNotStart) {
  open(1);
  const Submitted first = start(io::Direction::kWrite, reserved());
  begin();
  const Submitted waiting = start(io::Direction::kWrite, reserved());
  pass_time(kTimeoutNs);
  EXPECT_TRUE(session().wait(first).is_unanswered);
  const Completion failure = session().wait(waiting);
  EXPECT_FALSE(failure.is_unanswered) << "the drive has not got it";
  EXPECT_THAT(failure.status.message(), HasSubstr("drive drive0 has not answered"));
  EXPECT_EQ(gate().begun().size(), 1u);
}

TEST_F(Unanswered, WhatOnlyOtherDrivesHaveLeftToDoGoesOn) {
  open(2, kTimeoutNs, /*queue_depth=*/2);
  const Extent a = written(), b = written();
  const Submitted hung = start(io::Direction::kRead, a);
  begin();
  for (const io::IoRequest& request : gate(1).in_flight()) gate(1).end(request);
  begin();
  pass_time(kTimeoutNs / 2);
  const Submitted read = start(io::Direction::kRead, b);
  gate(0).end(gate(0).in_flight().back());
  begin();
  pass_time(kTimeoutNs / 2);
  EXPECT_TRUE(session().wait(hung).is_unanswered);
  gate(1).open();
  EXPECT_TRUE(session().wait(read).status.ok());
}

TEST_F(Unanswered, AWriteThatHangsDoesNotKeepReadsFromTheDrive) {
  open(1);
  const Extent extent = written();
  const Submitted write = start(io::Direction::kWrite, reserved());
  begin();
  pass_time(kTimeoutNs);
  EXPECT_TRUE(session().wait(write).is_unanswered);
  const Submitted read = start(io::Direction::kRead, extent);
  gate().end(gate().in_flight().back());
  EXPECT_TRUE(session().wait(read).status.ok());
}

TEST_F(Unanswered, ReadsFailUntilTheDriveAnswersAndWorkThen) {
  open(1);
  const Extent extent = written();
  const Submitted hung = start(io::Direction::kRead, extent);
  begin();
  pass_time(kTimeoutNs);
  EXPECT_TRUE(session().wait(hung).is_unanswered);
  const Completion refused = session().wait(start(io::Direction::kRead, extent));
  EXPECT_THAT(refused.status.message(), HasSubstr("drive drive0 has not answered a read"));
  EXPECT_EQ(gate().begun().size(), 2u) << "the write, and one read";
  gate().open();
  EXPECT_FALSE(session().completions().wait_for_calls(hung.ticket, 2).status.ok());
  EXPECT_TRUE(session().wait(start(io::Direction::kRead, extent)).status.ok());
}

TEST_F(Unanswered, TheDriveIsNamedWithItsOldestRequest) {
  open(2, 0, /*queue_depth=*/4);
  const Extent a = written(), b = written();
  const Submitted read = start(io::Direction::kRead, b);
  begin();
  let_answer(1);
  const int64_t offset_bytes = gate(0).in_flight().front().offset_bytes;
  pass_time(12'000'000'000);
  const Submitted later = start(io::Direction::kRead, a);
  begin();
  EXPECT_THAT(store().unanswered(13'000'000'000), IsEmpty());
  EXPECT_THAT(
      store().unanswered(10'000'000'000),
      ElementsAre(fmt::format("drive0 has not answered a read of {} at offset {} for 12.00 s",
                              format_size(kUnansweredBytes), offset_bytes)));
  gate(0).open();
  EXPECT_TRUE(session().wait(read).status.ok());
  EXPECT_TRUE(session().wait(later).status.ok());
  EXPECT_THAT(store().unanswered(0), IsEmpty());
}

TEST_F(Unanswered, WithoutALimitNothingFails) {
  open(1, 0);
  const Submitted write = start(io::Direction::kWrite, reserved());
  begin();
  pass_time(1000 * kTimeoutNs);
  EXPECT_EQ(call_count(write), 0);
  gate().open();
  EXPECT_TRUE(session().wait(write).status.ok());
}

}  // namespace
}  // namespace teraio::storage
