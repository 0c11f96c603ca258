#include "storage/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::storage {
namespace {

bool share_bytes(const Piece& a, const Piece& b) {
  return a.drive == b.drive && a.drive_offset_bytes < b.drive_offset_bytes + b.size_bytes &&
         b.drive_offset_bytes < a.drive_offset_bytes + a.size_bytes;
}

bool share_bytes(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Piece& piece) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Piece& other) { return share_bytes(piece, other); });
  });
}

bool share_time(const PlannedCopy& a, const PlannedCopy& b) {
  return a.begin < b.end && b.begin < a.end;
}

int64_t bytes_of(const std::vector<Piece>& pieces) {
  int64_t sum_bytes = 0;
  for (const Piece& piece : pieces) sum_bytes += piece.size_bytes;
  return sum_bytes;
}

TEST(Layout, CopiesAtDifferentTimesShareBytes) {
  const std::vector<PlannedCopy> copies = {{6 * kMiB, 0, 10}, {5 * kMiB, 10, 20}};
  const Layout layout(Striping({16 * kMiB}), copies);
  EXPECT_EQ(layout.room_bytes(), 6 * kMiB);
  EXPECT_EQ(layout.pieces(0)[0].drive_offset_bytes, layout.pieces(1)[0].drive_offset_bytes);
}

TEST(Layout, CopiesAtTheSameTimeDoNot) {
  const std::vector<PlannedCopy> copies = {{6 * kMiB, 0, 11}, {5 * kMiB, 10, 20}};
  const Layout layout(Striping({16 * kMiB}), copies);
  EXPECT_EQ(layout.room_bytes(), 11 * kMiB);
  EXPECT_FALSE(share_bytes(layout.pieces(0), layout.pieces(1)));
}

TEST(Layout, CopiesAreStripedByWeight) {
  Striping striping({64 * kMiB, 64 * kMiB});
  striping.set_weight(0, 3);
  const std::vector<PlannedCopy> copies = {{8 * kMiB, 0, 1}};
  const Layout layout(striping, copies);
  ASSERT_EQ(layout.pieces(0).size(), 2u);
  EXPECT_EQ(layout.pieces(0)[0].size_bytes, 6 * kMiB);
  EXPECT_EQ(layout.pieces(0)[1].size_bytes, 2 * kMiB);
}

TEST(Layout, ACopyWhoseBytesAreTakenHasToWait) {
  const std::vector<PlannedCopy> copies = {{2 * kMiB, 0, 10}, {kMiB, 10, 20}, {kMiB, 10, 20}};
  Layout layout(Striping({2 * kMiB}), copies);
  EXPECT_TRUE(layout.take(0));
  EXPECT_FALSE(layout.take(0));
  EXPECT_FALSE(layout.take(1));
  layout.give_back(0);
  EXPECT_TRUE(layout.take(1));
  EXPECT_TRUE(layout.take(2));
  layout.give_back(1);
  EXPECT_FALSE(layout.take(0)) << "half of it is taken";
}

TEST(Layout, EmptyCopiesTakeABlock) {
  const std::vector<PlannedCopy> copies = {{0, 0, 10}, {1, 0, 10}};
  EXPECT_EQ(peak_room_bytes(copies), 2 * io::kBlockBytes);
  EXPECT_EQ(Layout(Striping({kMiB}), copies).room_bytes(), 2 * io::kBlockBytes);
}

TEST(Layout, WithoutCopiesThereIsNone) {
  const Layout layout(Striping({kMiB}), {});
  EXPECT_EQ(layout.copy_count(), 0u);
  EXPECT_EQ(layout.room_bytes(), 0);
}

TEST(Layout, MoreThanIsFreeIsABrokenInvariant) {
  const std::vector<PlannedCopy> copies = {{2 * kMiB, 0, 10}};
  EXPECT_THROW(Layout(Striping({kMiB}), copies), InvariantError);
}

// Random plans on drives that are partly in use.
class RandomLayout : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    for (size_t drive = 0; drive < capacities_.size(); ++drive)
      striping_.set_weight(static_cast<int32_t>(drive), static_cast<double>(below(5)));
    for (size_t i = 0; i < 30; ++i) make_hole();
    make_copies();
  }

  size_t below(size_t count) { return random_() % count; }

  // Takes two extents and gives one back.
  void make_hole() {
    const auto gone = striping_.take(blocks(50));
    const auto kept = striping_.take(blocks(50));
    if (kept) taken_.insert(taken_.end(), kept->begin(), kept->end());
    if (gone) striping_.give_back(*gone);
  }
  int64_t blocks(size_t most) { return static_cast<int64_t>(1 + below(most)) * io::kBlockBytes; }

  // Makes as many copies as there is room for.
  void make_copies() {
    for (size_t i = 0; i < 300; ++i) {
      const auto begin = static_cast<int64_t>(below(100));
      const auto end = begin + 1 + static_cast<int64_t>(below(below(4) == 0 ? 100 : 10));
      const size_t most_bytes = below(10) == 0 ? 6 * kMiB : 200'000;
      copies_.push_back({static_cast<int64_t>(below(most_bytes)), begin, end});
      if (peak_room_bytes(copies_) > striping_.free_bytes()) copies_.pop_back();
    }
  }

  std::mt19937_64 random_{GetParam()};
  const std::vector<int64_t> capacities_ = {24 * kMiB, 8 * kMiB, 2 * kMiB};
  Striping striping_{capacities_};
  std::vector<Piece> taken_;
  std::vector<PlannedCopy> copies_;
};

TEST_P(RandomLayout, CopiesThatAreThereAtOnceShareNothing) {
  const Layout layout(striping_, copies_);
  size_t shared_count = 0;
  for (size_t a = 0; a < copies_.size(); ++a) {
    ASSERT_EQ(bytes_of(layout.pieces(a)), room_bytes_of(copies_[a].size_bytes));
    ASSERT_FALSE(share_bytes(layout.pieces(a), taken_));
    for (size_t b = 0; b < a; ++b) {
      const bool shared = share_bytes(layout.pieces(a), layout.pieces(b));
      ASSERT_FALSE(shared && share_time(copies_[a], copies_[b])) << "copies " << a << " and " << b;
      shared_count += shared ? 1 : 0;
    }
  }
  EXPECT_GT(shared_count, 0u);
}

TEST_P(RandomLayout, TheRoomIsEveryByteOnce) {
  const Layout layout(striping_, copies_);
  int64_t room_bytes = 0;
  for (size_t i = 0; i < layout.room().size(); ++i) {
    const Piece& piece = layout.room()[i];
    room_bytes += piece.size_bytes;
    ASSERT_LE(piece.drive_offset_bytes + piece.size_bytes, capacities_[piece.drive]);
    for (size_t j = 0; j < i; ++j) ASSERT_FALSE(share_bytes(piece, layout.room()[j]));
  }
  EXPECT_EQ(room_bytes, layout.room_bytes());
  EXPECT_GE(room_bytes, peak_room_bytes(copies_));
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    int64_t inside_bytes = 0;
    for (const Piece& piece : layout.pieces(copy)) {
      for (const Piece& room : layout.room()) {
        if (!share_bytes(piece, room)) continue;
        const int64_t begin = std::max(piece.drive_offset_bytes, room.drive_offset_bytes);
        const int64_t end = std::min(piece.drive_offset_bytes + piece.size_bytes,
                                     room.drive_offset_bytes + room.size_bytes);
        inside_bytes += end - begin;
      }
    }
    ASSERT_EQ(inside_bytes, bytes_of(layout.pieces(copy)));
  }
  striping_.take_exactly(layout.room());
  striping_.give_back(layout.room());
}

// In whatever order copies come and go, no two of them share a byte.
TEST_P(RandomLayout, OnlyFreeBytesAreTaken) {
  Layout layout(striping_, copies_);
  std::vector<size_t> there;
  for (int step = 0; step < 3000; ++step) {
    if (!there.empty() && below(2) == 0) {
      std::swap(there[below(there.size())], there.back());
      layout.give_back(there.back());
      there.pop_back();
      continue;
    }
    const size_t copy = below(copies_.size());
    const bool is_free = std::none_of(there.begin(), there.end(), [&](size_t other) {
      return share_bytes(layout.pieces(copy), layout.pieces(other));
    });
    ASSERT_EQ(layout.take(copy), is_free);
    if (is_free) there.push_back(copy);
  }
}

// A run that keeps to the plan's times always finds its places free.
TEST_P(RandomLayout, WhatComesAndGoesAsPlannedFindsItsPlace) {
  Layout layout(striping_, copies_);
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (int64_t time = 0; time <= 200; ++time) {
      for (size_t copy = 0; copy < copies_.size(); ++copy)
        if (copies_[copy].end == time) layout.give_back(copy);
      for (size_t copy = 0; copy < copies_.size(); ++copy)
        if (copies_[copy].begin == time) ASSERT_TRUE(layout.take(copy));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayout, ::testing::Range<uint64_t>(1, 9),
                         [](const auto& info) { return "seed" + std::to_string(info.param); });

}  // namespace
}  // namespace teraio::storage
