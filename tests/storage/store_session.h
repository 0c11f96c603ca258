// The vocabulary of the store tests: reserve, write, read back, wait, and inspect results.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "storage/tier_store.h"
#include "testing/page_memory.h"

namespace teraio::testing {

// Completions by transfer, as they arrive. Must outlive the store that calls it.
class Completions {
 public:
  // Returns a ticket for one transfer: done(ticket) is the transfer's `done`, and the ticket
  // identifies its completion.
  int32_t take_ticket() {
    const std::lock_guard lock(mutex_);
    return ticket_count_++;
  }

  std::function<void(const storage::Completion&)> done(int32_t ticket) {
    return [this, ticket](const storage::Completion& completion) {
      const std::lock_guard lock(mutex_);
      ++call_counts_[ticket];
      completions_[ticket] = completion;
      order_.push_back(ticket);
      changed_.notify_all();
    };
  }

  storage::Completion wait(int32_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return completions_.count(ticket) > 0; });
    return completions_.at(ticket);
  }

  // The transfer has ended, or failed unanswered, so often.
  storage::Completion wait_for_calls(int32_t ticket, int32_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call_counts_[ticket] >= count; });
    return completions_.at(ticket);
  }

  // The tickets in the order in which their transfers ended.
  std::vector<int32_t> order() const {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  int32_t call_count(int32_t ticket) const {
    const std::lock_guard lock(mutex_);
    const auto it = call_counts_.find(ticket);
    return it == call_counts_.end() ? 0 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int32_t ticket_count_ = 0;
  std::map<int32_t, storage::Completion> completions_;
  std::map<int32_t, int32_t> call_counts_;
  std::vector<int32_t> order_;
};

struct Submitted {
  storage::TransferId id = 0;
  int32_t ticket = 0;
};

// A store under test. Any thread.
class StoreSession {
 public:
  StoreSession() = default;
  explicit StoreSession(std::unique_ptr<storage::TierStore> store) : store_(std::move(store)) {}

  storage::TierStore& store() { return *store_; }
  Completions& completions() { return completions_; }
  void close() { store_.reset(); }

  storage::Extent reserve(int64_t size_bytes) {
    const Result<storage::Extent> extent = store_->reserve(size_bytes);
    EXPECT_TRUE(extent.ok()) << extent.status().message();
    return extent.ok() ? *extent : storage::Extent();
  }

  Submitted submit(storage::Transfer transfer) {
    Submitted submitted;
    submitted.ticket = completions_.take_ticket();
    transfer.done = completions_.done(submitted.ticket);
    submitted.id = store_->submit(std::move(transfer));
    return submitted;
  }
  Submitted submit(io::Direction direction, const storage::Extent& extent, PageMemory& memory,
                   storage::Priority priority = storage::Priority::kPlanned, int64_t deadline = 0) {
    return submit({direction, extent, memory.data(), priority, deadline, {}});
  }

  storage::Completion wait(const Submitted& submitted) {
    return completions_.wait(submitted.ticket);
  }

  storage::Completion transfer(io::Direction direction, const storage::Extent& extent,
                               PageMemory& memory) {
    return wait(submit(direction, extent, memory));
  }
  storage::Completion write(const storage::Extent& extent, uint64_t seed) {
    PageMemory memory(extent.size_bytes);
    memory.fill(seed);
    return transfer(io::Direction::kWrite, extent, memory);
  }

  // Reads the extent and compares it with what write(extent, seed) wrote.
  ::testing::AssertionResult holds(const storage::Extent& extent, uint64_t seed) {
    PageMemory memory(extent.size_bytes);
    const storage::Completion completion = transfer(io::Direction::kRead, extent, memory);
    if (!completion.status.ok())
      return ::testing::AssertionFailure() << completion.status.message();
    if (memory.holds(seed)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << extent.size_bytes << " bytes differ from byte "
                                         << memory.first_difference(seed) << " on";
  }

 private:
  Completions completions_;
  std::unique_ptr<storage::TierStore> store_;
};

}  // namespace teraio::testing
