// A striped store on drives that the test controls, on virtual time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/gated_io.h"

namespace teraio::testing {

// The base of fixtures. Its end opens all gates, so that the store can end.
class GatedStore : public ::testing::Test {
 protected:
  // Makes the store: one drive of 32 MiB for each weight.
  void open(const std::vector<double>& weights, const storage::StripedStoreOptions& options) {
    std::vector<storage::DriveSpec> drives;
    for (const double weight : weights) {
      gates_.push_back(std::make_unique<Gate>());
      storage::DriveSpec& drive = drives.emplace_back();
      drive.name = "drive" + std::to_string(drives.size() - 1);
      drive.capacity_bytes = 32 * kMiB;
      drive.weight = weight;
      drive.io = std::make_unique<GatedIo>(*gates_.back());
    }
    auto store = std::make_unique<storage::StripedStore>(std::move(drives), options, clock_);
    store_ = store.get();
    session_ = std::make_unique<StoreSession>(std::move(store));
  }
  void TearDown() override {
    for (const auto& gate : gates_) gate->open();
    session_.reset();
  }

  size_t drive_count() const { return gates_.size(); }
  Gate& gate(size_t drive = 0) { return *gates_[drive]; }
  storage::StripedStore& store() { return *store_; }
  StoreSession& session() { return *session_; }
  PageMemory& memory() { return memory_; }

  int64_t now_ns() const { return clock_.now_ns(); }
  void pass_time(int64_t duration_ns) { clock_.advance_to(clock_.now_ns() + duration_ns); }

  // An extent that can be read.
  storage::Extent written(int64_t size_bytes) {
    for (const auto& gate : gates_) gate->open();
    const storage::Extent extent = session().reserve(size_bytes);
    const Submitted write = session().submit(io::Direction::kWrite, extent, memory_);
    EXPECT_TRUE(session().wait(write).status.ok());
    for (const auto& gate : gates_) gate->close();
    return extent;
  }

 private:
  VirtualClock clock_;
  std::vector<std::unique_ptr<Gate>> gates_;
  PageMemory memory_{24 * kMiB};
  storage::StripedStore* store_ = nullptr;
  std::unique_ptr<StoreSession> session_;
};

}  // namespace teraio::testing
