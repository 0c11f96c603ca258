// PlanExecutor: executes a plan op by op on a modelled device with its tiers and channels.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulate/channels.h"
#include "simulate/resolved_plan.h"
#include "simulate/run.h"
#include "simulate/transfer_queue.h"
#include "trace/trace_index.h"

namespace teraio::simulate {

// Executes one plan. The objects that it is given must outlive it. One thread at a time may use it.
class PlanExecutor {
 public:
  struct Context {
    const trace::Trace& trace;
    const trace::TraceIndex& index;
    const TierCapacities& tiers;
    int64_t device_budget_bytes;
  };

  PlanExecutor(const Context& context, const Channels& idle_channels, const plan::Plan& plan,
               const ResolvedPlan& resolved);

  // Runs one iteration and fills `run`, except for the bytes moved per tier. Fails
  // (kInvalidArgument) when an op or a transfer can never start; the message says why.
  Status run_iteration(Run& run);

  // The migrations that are not done between two iterations. After equal snapshots, iterations run
  // equally.
  struct Pending {
    int32_t migration;
    bool in_flight;
    double remaining_bytes;
    bool operator==(const Pending&) const = default;
  };
  std::vector<Pending> pending() const;

 private:
  enum class Stage : uint8_t { kDone, kBlocked, kQueued, kInFlight };

  struct Transfer {
    Stage stage = Stage::kDone;
    int32_t successor = -1;   // the next migration of the tensor, which waits for this one
    int64_t sequence = 0;     // issue order
    int64_t deadline_op = 0;  // counted over all iterations
    int64_t issue_ns = 0;
    int64_t start_ns = 0;
  };

  struct TierQueues {
    TransferQueue reads;   // by deadline
    TransferQueue writes;  // by issue order
    TransferQueue writes_by_deadline;
  };

  struct TensorState {
    int32_t last_issued = -1;   // its newest migration, -1 when done
    int32_t current = -1;       // its oldest migration not done, or -1
    bool is_offloaded = false;  // left or leaving the device
  };

  struct NextOp {
    std::vector<trace::TensorIndex> missing;  // its offloaded tensors
    int64_t missing_bytes = 0;                // of those that have no device memory yet
    int64_t bytes = 0;                        // its births and workspace
    int64_t number = 0;                       // counted over all iterations
    bool is_stalled = false;
  };

  void place_at_start();
  void issue(int32_t migration);
  void make_ready(int32_t migration);
  void queue(int32_t migration);
  void complete(int32_t migration);
  void arrive(int32_t migration);
  void finish(int32_t migration);
  void die(int32_t last);

  Status wait_for(trace::OpIndex op);
  void run_op(trace::OpIndex op);
  void begin_next_iteration();
  void look_ahead(trace::OpIndex op);
  void count_missing_bytes();
  bool arriving(trace::TensorIndex tensor) const;
  bool is_missing(trace::TensorIndex tensor) const;
  void pass_until(int64_t end_ns);
  void stall_until(int64_t end_ns, bool is_first);
  std::string_view stall_cause() const;
  Status stuck(trace::OpIndex op);
  Status no_room_on_tier(int32_t migration) const;

  void start_transfers();
  void start_read(plan::Tier tier);
  void start_write(plan::Tier tier);
  bool is_queued(const TransferQueue::Entry& entry) const;
  int32_t urgent_read(plan::Tier tier) const;
  int32_t first_write(plan::Tier tier);
  void begin_read(int32_t migration);
  void begin_write(int32_t migration);
  void begin(int32_t migration, bool out);
  void take_device(int64_t size_bytes);
  void take_tier(plan::Tier tier, int64_t size_bytes);

  const plan::Migration& migration(int32_t i) const { return plan_.migrations[i]; }
  int64_t size_bytes(int32_t i) const { return context_.index.size_bytes[migration(i).tensor]; }
  bool fits(int64_t more_bytes) const {
    return device_bytes_ + more_bytes <= context_.device_budget_bytes;
  }

  const Context context_;
  const plan::Plan& plan_;
  const ResolvedPlan& resolved_;
  Channels channels_;
  std::array<TierQueues, 2> queues_;  // by tier
  std::vector<Transfer> transfers_;   // by migration
  std::vector<TensorState> tensors_;  // by tensor
  NextOp next_;
  int64_t device_bytes_ = 0;
  std::array<int64_t, 2> tier_bytes_{};
  int64_t now_ns_ = 0;
  int64_t iteration_first_op_ = 0;  // counted over all iterations
  int64_t sequence_ = 0;
  Run* run_ = nullptr;
};

}  // namespace teraio::simulate
