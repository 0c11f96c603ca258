// Order, requests in flight, cancellation and striping, step by step on drives that the test
// controls.
#include "storage/striped_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/check.h"
#include "io/retrying_io.h"
#include "storage/gated_store.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::Submitted;

constexpr int64_t kRequestBytes = 64 * kKiB;

class StripedStoreTest : public testing::GatedStore {
 protected:
  void open(const std::vector<double>& weights, int32_t queue_depth,
            int32_t planned_write_depth = 64) {
    StripedStoreOptions options;
    options.request_bytes = kRequestBytes;
    options.queue_depth = queue_depth;
    options.planned_write_depth = planned_write_depth;
    GatedStore::open(weights, options);
  }

  // Ends the requests in flight on one drive. Its next requests have started on return.
  void end_in_flight(size_t drive) {
    for (const io::IoRequest& request : gate(drive).in_flight()) gate(drive).end(request);
    gate(drive).begun();
  }

  Submitted read(const Extent& extent, int64_t deadline = 0) {
    return session().submit(io::Direction::kRead, extent, memory(), Priority::kPlanned, deadline);
  }
  // The drive has started the read on return.
  Submitted begun_read(const Extent& extent) {
    const Submitted submitted = read(extent);
    gate().begun();
    return submitted;
  }
  Submitted urgent_read(const Extent& extent) {
    return session().submit(io::Direction::kRead, extent, memory(), Priority::kUrgent);
  }
  Submitted write(const Extent& extent, Priority priority = Priority::kPlanned) {
    return session().submit(io::Direction::kWrite, extent, memory(), priority);
  }

  // Ends the requests in flight one at a time. Returns the offsets of those that start then, in
  // order.
  std::vector<int64_t> offsets_as_they_begin() {
    const size_t first = gate().begun().size();
    while (true) {
      const std::vector<io::IoRequest> in_flight = gate().in_flight();
      if (in_flight.empty()) break;
      gate().end(in_flight.front());
    }
    std::vector<int64_t> offsets;
    const std::vector<io::IoRequest> begun = gate().begun();
    for (size_t i = first; i < begun.size(); ++i) offsets.push_back(begun[i].offset_bytes);
    return offsets;
  }

  size_t count(io::Direction direction, size_t drive = 0) {
    size_t count = 0;
    for (const io::IoRequest& request : gate(drive).in_flight())
      count += request.direction == direction;
    return count;
  }
};

TEST_F(StripedStoreTest, UrgentReadsPassPlannedOnes) {
  open({1.0}, 1);
  const Extent a = written(4096), b = written(4096), c = written(4096);
  begun_read(a);
  read(b);
  urgent_read(c);
  EXPECT_THAT(offsets_as_they_begin(), ElementsAre(c.id, b.id));
}

TEST_F(StripedStoreTest, PlannedReadsGoByDeadline) {
  open({1.0}, 1);
  const Extent a = written(4096), b = written(4096), c = written(4096), d = written(4096);
  read(a, 1);
  read(b, 30);
  read(c, 10);
  read(d, 20);
  EXPECT_THAT(offsets_as_they_begin(), ElementsAre(c.id, d.id, b.id));
}

TEST_F(StripedStoreTest, PlannedWritesGoInIssueOrder) {
  open({1.0}, 1);
  const Extent a = session().reserve(4096), b = session().reserve(4096),
               c = session().reserve(4096);
  write(a);
  write(c);
  write(b);
  EXPECT_THAT(offsets_as_they_begin(), ElementsAre(c.id, b.id));
}

TEST_F(StripedStoreTest, ExpeditedTransfersGoInTheOrderOfBecomingUrgent) {
  open({1.0}, 1);
  const Extent a = written(4096), b = written(4096), c = written(4096), d = written(4096);
  begun_read(a);
  const Submitted second = read(b), third = read(c);
  read(d);
  store().expedite(third.id);
  store().expedite(second.id);
  EXPECT_THAT(offsets_as_they_begin(), ElementsAre(c.id, b.id, d.id));
}

TEST_F(StripedStoreTest, TheRestOfAStartedTransferCanBeExpedited) {
  open({1.0}, 1);
  const Extent large = written(3 * kRequestBytes), small = written(4096);
  const Submitted long_read = read(large, 5);
  gate().begun();
  read(small, 1);
  store().expedite(long_read.id);
  EXPECT_THAT(offsets_as_they_begin(),
              ElementsAre(large.id + kRequestBytes, large.id + 2 * kRequestBytes, small.id));
}

TEST_F(StripedStoreTest, ExpeditingWhatIsOverDoesNothing) {
  open({1.0}, 1);
  const Extent a = written(4096);
  const Submitted done = read(a);
  offsets_as_they_begin();
  store().expedite(done.id);
  store().expedite(12345);
  EXPECT_TRUE(session().wait(done).status.ok());
}

TEST_F(StripedStoreTest, ADriveHasNoMoreInFlightThanItMay) {
  open({1.0}, 4);
  const Extent readable = written(16 * kRequestBytes);
  read(readable);
  write(session().reserve(16 * kRequestBytes));
  EXPECT_EQ(count(io::Direction::kRead), 4);
  EXPECT_EQ(count(io::Direction::kWrite), 4);
}

TEST_F(StripedStoreTest, FewerPlannedWritesThanUrgentOnesAreInFlight) {
  open({1.0}, 8, 2);
  write(session().reserve(32 * kRequestBytes));
  EXPECT_EQ(count(io::Direction::kWrite), 2);
  write(session().reserve(32 * kRequestBytes), Priority::kUrgent);
  EXPECT_EQ(count(io::Direction::kWrite), 8);
}

TEST_F(StripedStoreTest, TwiceAsManyPlannedWritesAreInFlightBesidePlannedReads) {
  open({1.0}, 8, 2);
  const Extent readable = written(16 * kRequestBytes);
  write(session().reserve(32 * kRequestBytes));
  EXPECT_EQ(count(io::Direction::kWrite), 2);
  read(readable);
  EXPECT_EQ(count(io::Direction::kRead), 8);
  EXPECT_EQ(count(io::Direction::kWrite), 4);
}

TEST_F(StripedStoreTest, AfterUrgentWritesPlannedOnesKeepTheirOwnLimit) {
  open({1.0}, 4, 1);
  write(session().reserve(16 * kRequestBytes));
  EXPECT_EQ(count(io::Direction::kWrite), 1);
  write(session().reserve(kRequestBytes), Priority::kUrgent);
  EXPECT_EQ(count(io::Direction::kWrite), 2);
  gate().end(gate().in_flight().back());  // the urgent one
  EXPECT_EQ(count(io::Direction::kWrite), 1);
}

TEST_F(StripedStoreTest, AnUrgentReadStartsBehindAFullQueueOfWrites) {
  open({1.0}, 4);
  const Extent readable = written(kRequestBytes);
  write(session().reserve(100 * kRequestBytes));
  EXPECT_EQ(count(io::Direction::kWrite), 4);
  urgent_read(readable);
  EXPECT_EQ(count(io::Direction::kRead), 1);
}

TEST_F(StripedStoreTest, PlannedWritesYieldToUrgentReadsButGoOn) {
  open({1.0}, 8);
  const Extent readable = written(16 * kRequestBytes);
  write(session().reserve(100 * kRequestBytes));
  urgent_read(readable);
  for (const io::IoRequest& request : gate().in_flight())
    if (request.direction == io::Direction::kWrite) gate().end(request);
  EXPECT_EQ(count(io::Direction::kWrite), 1);
  EXPECT_EQ(count(io::Direction::kRead), 8);
}

TEST_F(StripedStoreTest, ACancelledTransferNeverBegins) {
  open({1.0}, 1);
  const Extent a = written(4096), b = written(4096);
  begun_read(a);
  const Submitted waiting = read(b);
  EXPECT_TRUE(store().cancel(waiting.id));
  EXPECT_EQ(session().wait(waiting).status.code(), ErrorCode::kCancelled);
  EXPECT_THAT(offsets_as_they_begin(), IsEmpty());
  EXPECT_FALSE(store().cancel(waiting.id));
}

TEST_F(StripedStoreTest, AStartedTransferCannotBeCancelled) {
  open({1.0}, 1);
  const Extent a = written(3 * kRequestBytes);
  const Submitted started = begun_read(a);
  EXPECT_FALSE(store().cancel(started.id));
  offsets_as_they_begin();
  EXPECT_TRUE(session().wait(started).status.ok());
}

TEST_F(StripedStoreTest, ClosingFinishesWhatStartedAndCancelsTheRest) {
  open({1.0}, 1);
  const Extent a = session().reserve(2 * kRequestBytes), b = session().reserve(4096);
  const Submitted started = write(a);
  gate().begun();
  const Submitted waiting = write(b);
  std::thread closing([this] { session().close(); });
  EXPECT_EQ(session().wait(waiting).status.code(), ErrorCode::kCancelled);
  gate().open();
  EXPECT_TRUE(session().wait(started).status.ok());
  closing.join();
}

TEST_F(StripedStoreTest, LargeExtentsAreStripedByWeight) {
  open({2.0, 1.0}, 4);
  const Extent extent = session().reserve(12 * kMiB);
  EXPECT_THAT(store().pieces(extent),
              ElementsAre(Piece{0, 0, 0, 8 * kMiB}, Piece{1, 0, 8 * kMiB, 4 * kMiB}));
  write(extent);
  EXPECT_EQ(count(io::Direction::kWrite, 0), 4);
  EXPECT_EQ(count(io::Direction::kWrite, 1), 4);
}

TEST_F(StripedStoreTest, SmallExtentsStayWholeAndSpreadByWeight) {
  open({3.0, 1.0}, 4);
  int64_t bytes[2] = {0, 0};
  for (int i = 0; i < 16; ++i) {
    const std::vector<Piece> pieces = store().pieces(session().reserve(kMiB));
    ASSERT_THAT(pieces, SizeIs(1));
    bytes[pieces[0].drive] += pieces[0].size_bytes;
  }
  EXPECT_EQ(bytes[0], 12 * kMiB);
  EXPECT_EQ(bytes[1], 4 * kMiB);
}

TEST_F(StripedStoreTest, SharesFollowTheMeasuredRates) {
  open({1.0, 1.0}, 2);
  const Extent extent = session().reserve(4 * kMiB);
  for (const io::Direction direction : {io::Direction::kWrite, io::Direction::kRead}) {
    const Submitted submitted = session().submit(direction, extent, memory());
    gate(0).begun();
    gate(1).begun();
    for (int step = 1; step <= 64; ++step) {  // 2 MiB on each drive: 16 and 64 steps
      pass_time(1'000'000'000 / 16);
      end_in_flight(0);
      if (step % 4 == 0) end_in_flight(1);
    }
    EXPECT_TRUE(session().wait(submitted).status.ok());
  }
  const std::vector<Piece> pieces = store().pieces(session().reserve(10 * kMiB));
  ASSERT_THAT(pieces, SizeIs(2));
  // The drives' threads may read the clock one step late.
  EXPECT_NEAR(static_cast<double>(pieces[0].size_bytes), 8 * kMiB, kMiB);
  EXPECT_EQ(pieces[0].size_bytes + pieces[1].size_bytes, 10 * kMiB);
}

TEST_F(StripedStoreTest, AStripedTransferEndsWithItsLastPiece) {
  open({1.0, 1.0}, 64);
  const Extent extent = session().reserve(4 * kMiB);
  const Submitted submitted = write(extent);
  for (const io::IoRequest& request : gate(0).in_flight()) gate(0).end(request);
  EXPECT_THAT(gate(0).in_flight(), IsEmpty());
  EXPECT_EQ(session().completions().call_count(submitted.ticket), 0);
  for (const io::IoRequest& request : gate(1).in_flight()) gate(1).end(request);
  EXPECT_EQ(session().wait(submitted).transferred_bytes, 4 * kMiB);
}

TEST_F(StripedStoreTest, ConflictingTransfersOfOneExtentAreRefused) {
  open({1.0}, 4);
  const Extent extent = written(4096);
  const Submitted first = read(extent);
  EXPECT_EQ(session().wait(write(extent)).status.code(), ErrorCode::kInvalidArgument);
  const Submitted second = read(extent);  // reads do not conflict
  EXPECT_THROW(store().release(extent), InvariantError);
  offsets_as_they_begin();
  EXPECT_TRUE(session().wait(first).status.ok());
  EXPECT_TRUE(session().wait(second).status.ok());
  const Submitted rewrite = write(extent);
  const Status refused = session().wait(read(extent)).status;
  EXPECT_THAT(refused.message(), HasSubstr("a write of it is under way"));
  offsets_as_they_begin();
  EXPECT_TRUE(session().wait(rewrite).status.ok());
}

TEST_F(StripedStoreTest, ShortTransfersAreResumed) {
  open({1.0}, 4);
  const Extent extent = session().reserve(kRequestBytes);
  const Submitted submitted = write(extent);
  gate().end(gate().in_flight().front(), 3 * 4096);
  const io::IoRequest rest = gate().in_flight().front();
  EXPECT_EQ(rest.offset_bytes, 3 * 4096);
  EXPECT_EQ(rest.size_bytes, kRequestBytes - 3 * 4096);
  EXPECT_EQ(rest.memory, memory().data() + 3 * 4096);
  gate().end(rest, 5000);  // direct I/O can resume only at a whole block
  EXPECT_EQ(gate().in_flight().front().offset_bytes, 4 * 4096);
  offsets_as_they_begin();
  EXPECT_EQ(session().wait(submitted).transferred_bytes, kRequestBytes);
}

// Whether a write that meets the error `count` times succeeds, and the time that passed meanwhile.
class PassingErrors : public StripedStoreTest, public ::testing::WithParamInterface<int> {
 protected:
  bool succeeds_after(int32_t count) {
    open({1.0}, 4);
    const Submitted submitted = write(session().reserve(4096));
    for (int32_t i = 0; i < count; ++i) gate().end(gate().in_flight().front(), -GetParam());
    offsets_as_they_begin();
    return session().wait(submitted).status.ok();
  }
};

INSTANTIATE_TEST_SUITE_P(Errors, PassingErrors,
                         ::testing::Values(EAGAIN, ENOMEM, ECANCELED, ENOSPC));

TEST_P(PassingErrors, TheSecondAttemptComesAtOnce) {
  EXPECT_TRUE(succeeds_after(1));
  EXPECT_EQ(now_ns(), 0);
}

TEST_P(PassingErrors, LaterAttemptsComeAfterPausesThatDouble) {
  EXPECT_TRUE(succeeds_after(5));
  EXPECT_EQ(now_ns(), 15'000'000);
}

TEST_P(PassingErrors, AfterASecondTheyAreErrors) {
  open({1.0}, 4);
  const Submitted submitted = write(session().reserve(4096));
  int32_t attempts = 0;
  for (; !gate().in_flight().empty(); ++attempts)
    gate().end(gate().in_flight().front(), -GetParam());
  EXPECT_FALSE(session().wait(submitted).status.ok());
  EXPECT_EQ(attempts, io::kPausesMax + 2);
  EXPECT_EQ(now_ns(), 1'023'000'000);
}

TEST_F(StripedStoreTest, AReadThatIsOutOfSpaceIsAnErrorAtOnce) {
  open({1.0}, 4);
  const Submitted submitted = read(written(4096));
  gate().end(gate().in_flight().front(), -ENOSPC);
  EXPECT_FALSE(session().wait(submitted).status.ok());
}

TEST_F(StripedStoreTest, ATransferWithoutProgressIsAnError) {
  open({1.0}, 4);
  const Submitted submitted = write(session().reserve(4096));
  gate().end(gate().in_flight().front(), 0);
  EXPECT_THAT(session().wait(submitted).status.message(), HasSubstr("no byte was moved"));
}

TEST_F(StripedStoreTest, AnErrorNamesDriveOffsetAndCause) {
  open({1.0}, 1);
  session().reserve(8192);
  const Extent extent = session().reserve(2 * kRequestBytes);
  const Submitted submitted = write(extent);
  gate().end(gate().in_flight().front(), -EIO);
  const Status status = session().wait(submitted).status;
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("extent of 131072 bytes at 8192"), HasSubstr("drive0"),
                    HasSubstr("write of 65536 bytes at offset 8192"),
                    HasSubstr("Input/output error (errno 5)")));
  EXPECT_THAT(gate().in_flight(), IsEmpty()) << "the rest of a failed transfer is not begun";
  EXPECT_EQ(store().counters().drives[0].error_count, 1);
}

TEST_F(StripedStoreTest, AFailedWriteLeavesNothingToRead) {
  open({1.0}, 4);
  const Extent extent = written(4096);
  const Submitted rewrite = write(extent);
  gate().end(gate().in_flight().front(), -EIO);
  EXPECT_FALSE(session().wait(rewrite).status.ok());
  EXPECT_EQ(session().wait(read(extent)).status.code(), ErrorCode::kInvalidArgument);
}

// Otherwise, each of a hundred writes would take a second to find out what is known.
TEST_F(StripedStoreTest, AFullDriveIsWaitedForOnceUntilAWriteSucceeds) {
  const auto fail_for_want_of_room = [this] {
    const Submitted submitted = write(session().reserve(4096));
    while (!gate().in_flight().empty()) gate().end(gate().in_flight().front(), -ENOSPC);
    EXPECT_EQ(session().wait(submitted).status.code(), ErrorCode::kOutOfSpace);
    return now_ns();
  };
  open({1.0}, 4);
  const int64_t first_wait_ns = fail_for_want_of_room();
  EXPECT_EQ(fail_for_want_of_room(), first_wait_ns);
  const Submitted submitted = write(session().reserve(4096));
  gate().end(gate().in_flight().front());
  ASSERT_TRUE(session().wait(submitted).status.ok());
  EXPECT_EQ(fail_for_want_of_room(), 2 * first_wait_ns);
}

TEST_F(StripedStoreTest, AFailedStripedTransferWaitsForItsOtherPieces) {
  open({1.0, 1.0}, 2);
  const Submitted submitted = write(session().reserve(4 * kMiB));
  const std::vector<io::IoRequest> others = gate(1).in_flight();
  for (const io::IoRequest& request : gate(0).in_flight()) gate(0).end(request, -EIO);
  EXPECT_THAT(gate(0).in_flight(), IsEmpty());
  EXPECT_EQ(session().completions().call_count(submitted.ticket), 0);
  for (const io::IoRequest& request : others) gate(1).end(request);
  EXPECT_EQ(session().wait(submitted).status.code(), ErrorCode::kIoError);
  EXPECT_THAT(gate(1).in_flight(), IsEmpty());
}

TEST_F(StripedStoreTest, NewExtentsAvoidAFailedDrive) {
  open({1.0, 1.0}, 4);
  const Submitted failing = write(session().reserve(4096));
  gate(0).end(gate(0).in_flight().front(), -EIO);
  EXPECT_FALSE(session().wait(failing).status.ok());
  for (const int64_t size_bytes : {4096L, 8 * kMiB})
    for (const Piece& piece : store().pieces(session().reserve(size_bytes)))
      EXPECT_EQ(piece.drive, 1);
}

// A drive takes requests of so many bytes at any offset (RealFaults.OffsetsBeyondFourGibibytes), so
// that this one needs no bytes.
TEST(LargeExtent, ItsRequestsCoverMoreThanFiveGibibytesInOrder) {
  constexpr int64_t kSizeBytes = 5 * kGiB + 1;
  testing::Gate gate;
  gate.open();
  std::vector<DriveSpec> drives(1);
  drives[0].capacity_bytes = kSizeBytes + kMiB;
  drives[0].io = std::make_unique<testing::GatedIo>(gate);
  const VirtualClock clock;
  testing::StoreSession session(
      std::make_unique<StripedStore>(std::move(drives), StripedStoreOptions(), clock));
  const Extent extent = session.reserve(kSizeBytes);
  auto* const memory = reinterpret_cast<std::byte*>(kGiB);  // nobody touches it
  for (const io::Direction direction : {io::Direction::kWrite, io::Direction::kRead}) {
    const size_t first = gate.begun().size();
    const Completion moved =
        session.wait(session.submit({direction, extent, memory, Priority::kPlanned, 0, {}}));
    EXPECT_EQ(moved.transferred_bytes, kSizeBytes) << moved.status.message();
    const std::vector<io::IoRequest> requests = gate.begun();
    int64_t next_bytes = 0;
    for (size_t i = first; i < requests.size(); ++i) {
      ASSERT_EQ(requests[i].offset_bytes, next_bytes);
      ASSERT_EQ(requests[i].memory, memory + next_bytes);
      next_bytes += requests[i].size_bytes;
    }
    EXPECT_EQ(next_bytes, align_up(kSizeBytes, io::kBlockBytes));
  }
}

}  // namespace
}  // namespace teraio::storage
