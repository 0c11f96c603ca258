#include "simulate/plan_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "simulate/simulator.h"

namespace teraio::simulate {
namespace {

constexpr int32_t kNone = -1;
constexpr std::array<plan::Tier, 2> kTiers = {plan::Tier::kSsd, plan::Tier::kHost};

int slot(plan::Tier tier) { return static_cast<int>(tier); }

}  // namespace

PlanExecutor::PlanExecutor(const Context& context, const Channels& idle_channels,
                           const plan::Plan& plan, const ResolvedPlan& resolved)
    : context_(context),
      plan_(plan),
      resolved_(resolved),
      channels_(idle_channels),
      transfers_(plan.migrations.size()),
      tensors_(context.index.tensor_count()) {
  place_at_start();
}

// In steady state, the migrations of the iteration before have ended, except for the prefetches
// that reach across its end. Those are issued now.
void PlanExecutor::place_at_start() {
  device_bytes_ = context_.index.persistent_bytes;
  tier_bytes_ = resolved_.kept_bytes_at_start;
  std::vector<int32_t> issued;
  for (const ResolvedPlan::OffloadedTensor& offloaded : resolved_.offloaded_at_start) {
    const int64_t size_bytes = context_.index.size_bytes[offloaded.tensor];
    device_bytes_ -= size_bytes;
    tier_bytes_[slot(offloaded.tier)] += size_bytes;
    tensors_[offloaded.tensor].is_offloaded = true;
    if (offloaded.issued_prefetch != kNone) issued.push_back(offloaded.issued_prefetch);
  }
  std::sort(issued.begin(), issued.end(), [this](int32_t a, int32_t b) {
    return std::pair(migration(a).trigger_op, a) < std::pair(migration(b).trigger_op, b);
  });
  iteration_first_op_ = -static_cast<int64_t>(context_.index.op_count());
  for (int32_t i : issued) issue(i);
  iteration_first_op_ = 0;
}

Status PlanExecutor::run_iteration(Run& run) {
  run = Run();
  run.op_start_ns.reserve(context_.index.op_count());
  run.transfers.reserve(plan_.migrations.size());
  run.device_peak_bytes = device_bytes_;
  run.ssd_peak_bytes = tier_bytes_[slot(plan::Tier::kSsd)];
  run.host_peak_bytes = tier_bytes_[slot(plan::Tier::kHost)];
  run_ = &run;
  for (size_t k = 0; k < context_.index.op_count(); ++k) {
    const auto op = static_cast<trace::OpIndex>(k);
    for (int32_t i : resolved_.issued_at[k]) issue(i);
    look_ahead(op);
    TERAIO_RETURN_IF_ERROR(wait_for(op));
    run_op(op);
  }
  run.ideal_ns = context_.index.ideal_ns;
  run.step_ns = now_ns_;
  run.stall_ns = run.step_ns - run.ideal_ns;
  run.stall_by_cause_ns = {{kStallRead, 0}, {kStallMemory, 0}, {kStallWrite, 0}};
  for (const StallRecord& stall : run.stalls)
    run.stall_by_cause_ns[std::string(stall.cause)] += stall.end_ns - stall.start_ns;
  run_ = nullptr;
  begin_next_iteration();
  return Status();
}

void PlanExecutor::begin_next_iteration() {
  for (Transfer& transfer : transfers_) {
    transfer.issue_ns -= now_ns_;
    transfer.start_ns -= now_ns_;
  }
  channels_.rebase(now_ns_);
  now_ns_ = 0;
  iteration_first_op_ += static_cast<int64_t>(context_.index.op_count());
}

std::vector<PlanExecutor::Pending> PlanExecutor::pending() const {
  std::vector<Pending> pending;
  for (size_t i = 0; i < transfers_.size(); ++i)
    if (transfers_[i].stage != Stage::kDone)
      pending.push_back({static_cast<int32_t>(i), transfers_[i].stage == Stage::kInFlight, 0});
  for (int c = 0; c < kChannelCount; ++c)
    if (!channels_.idle(c))
      pending.push_back({channels_.transfer(c), true, channels_.remaining_bytes(c)});
  return pending;
}

// --- A migration is issued, becomes ready when the one before it of the same tensor is done, moves
// bytes, and is done ---

void PlanExecutor::issue(int32_t i) {
  const plan::Migration& issued = migration(i);
  const auto op_count = static_cast<int64_t>(context_.index.op_count());
  Transfer& transfer = transfers_[i];
  transfer.sequence = ++sequence_;
  transfer.issue_ns = now_ns_;
  transfer.deadline_op = iteration_first_op_ + issued.deadline_op +
                         (issued.deadline_op < issued.trigger_op ? op_count : 0);
  if (issued.action != plan::Action::kPrefetch) tensors_[issued.tensor].is_offloaded = true;
  const int32_t before = std::exchange(tensors_[issued.tensor].last_issued, i);
  if (before == kNone) {
    tensors_[issued.tensor].current = i;
    return make_ready(i);
  }
  transfers_[before].successor = i;
  transfer.stage = Stage::kBlocked;
}

void PlanExecutor::make_ready(int32_t i) {
  if (migration(i).action != plan::Action::kDrop) return queue(i);
  device_bytes_ -= size_bytes(i);
  transfers_[i].start_ns = now_ns_;
  finish(i);
}

void PlanExecutor::queue(int32_t i) {
  Transfer& transfer = transfers_[i];
  const int tier = slot(migration(i).tier);
  transfer.stage = Stage::kQueued;
  const TransferQueue::Entry by_deadline = {transfer.deadline_op, transfer.sequence, i};
  if (migration(i).action == plan::Action::kPrefetch) return queues_[tier].reads.push(by_deadline);
  queues_[tier].writes.push({transfer.sequence, transfer.sequence, i});
  queues_[tier].writes_by_deadline.push(by_deadline);
}

void PlanExecutor::complete(int32_t i) {
  if (migration(i).action == plan::Action::kPrefetch)
    arrive(i);
  else
    device_bytes_ -= size_bytes(i);
  finish(i);
}

void PlanExecutor::arrive(int32_t i) {
  if (!resolved_.keeps_copy[i]) tier_bytes_[slot(migration(i).tier)] -= size_bytes(i);
  const bool leaves_again = transfers_[i].successor != kNone;
  if (leaves_again) return;
  tensors_[migration(i).tensor].is_offloaded = false;
  std::erase(next_.missing, migration(i).tensor);
}

void PlanExecutor::finish(int32_t i) {
  Transfer& transfer = transfers_[i];
  const plan::Migration& finished = migration(i);
  transfer.stage = Stage::kDone;
  if (run_ != nullptr)
    run_->transfers.push_back({finished.tensor, finished.action, finished.tier, transfer.issue_ns,
                               transfer.start_ns, now_ns_});
  if (tensors_[finished.tensor].last_issued == i) tensors_[finished.tensor].last_issued = kNone;
  const int32_t next = std::exchange(transfer.successor, kNone);
  tensors_[finished.tensor].current = next;
  if (is_missing(finished.tensor)) count_missing_bytes();
  if (next != kNone) make_ready(next);
}

// Frees the tensor whose final migration is `last`. run_op() has subtracted the tensor from the
// device already, so bytes that are not there are added back. Its transfers are cancelled.
void PlanExecutor::die(int32_t last) {
  const trace::TensorIndex tensor = migration(last).tensor;
  if (!tensors_[tensor].is_offloaded) return;
  int32_t i = std::exchange(tensors_[tensor].current, kNone);
  const bool in_flight = i != kNone && transfers_[i].stage == Stage::kInFlight;
  const bool coming = i != kNone && migration(i).action == plan::Action::kPrefetch;
  const bool leaving = i != kNone && !coming;
  const plan::Tier tier = migration(i == kNone ? last : i).tier;
  if (!leaving && !in_flight) device_bytes_ += size_bytes(last);
  if (!leaving || in_flight) tier_bytes_[slot(tier)] -= size_bytes(last);
  if (in_flight) channels_.stop(channel_of(tier, leaving), now_ns_);
  for (; i != kNone; i = std::exchange(transfers_[i].successor, kNone))
    transfers_[i].stage = Stage::kDone;
  tensors_[tensor].last_issued = kNone;
  tensors_[tensor].is_offloaded = false;
}

// --- Ops ---

// Computes what op `op` still lacks. `op` may be one past the end: the first op of the next
// iteration.
void PlanExecutor::look_ahead(trace::OpIndex op) {
  next_.number = iteration_first_op_ + op;
  if (op == context_.index.op_count()) op = 0;
  next_.bytes = context_.index.birth_bytes[op] + context_.index.workspace_bytes[op];
  next_.missing.clear();
  for (trace::TensorIndex tensor : context_.index.active[op])
    if (tensors_[tensor].is_offloaded) next_.missing.push_back(tensor);
  count_missing_bytes();
}

void PlanExecutor::count_missing_bytes() {
  next_.missing_bytes = 0;
  for (trace::TensorIndex tensor : next_.missing)
    if (!arriving(tensor)) next_.missing_bytes += context_.index.size_bytes[tensor];
}

// Whether the read of the tensor has begun, which takes its device memory.
bool PlanExecutor::arriving(trace::TensorIndex tensor) const {
  const int32_t i = tensors_[tensor].current;
  return i != kNone && transfers_[i].stage == Stage::kInFlight &&
         migration(i).action == plan::Action::kPrefetch;
}

bool PlanExecutor::is_missing(trace::TensorIndex tensor) const {
  return std::find(next_.missing.begin(), next_.missing.end(), tensor) != next_.missing.end();
}

Status PlanExecutor::wait_for(trace::OpIndex op) {
  bool is_first = true;
  while (!next_.missing.empty() || !fits(next_.bytes)) {
    next_.is_stalled = true;
    start_transfers();
    const int64_t until_ns = channels_.next_event_ns();
    if (until_ns == kNoTime) return stuck(op);
    stall_until(until_ns, std::exchange(is_first, false));
  }
  next_.is_stalled = false;
  return Status();
}

void PlanExecutor::run_op(trace::OpIndex op) {
  const trace::TraceIndex& index = context_.index;
  take_device(next_.bytes);
  run_->op_start_ns.push_back(now_ns_);
  const int64_t end_ns = now_ns_ + index.duration_ns[op];
  look_ahead(op + 1);
  start_transfers();
  while (channels_.next_event_ns() <= end_ns) {
    pass_until(channels_.next_event_ns());
    start_transfers();
  }
  now_ns_ = end_ns;
  device_bytes_ -= index.workspace_bytes[op] + index.death_bytes[op];
  for (int32_t i : resolved_.final_offloads[op]) die(i);
}

void PlanExecutor::pass_until(int64_t event_ns) {
  now_ns_ = event_ns;
  channels_.advance([this](int32_t i) { complete(i); });
}

// Records a part of a stall, which extends the part before it when the cause is the same.
void PlanExecutor::stall_until(int64_t end_ns, bool is_first) {
  std::vector<StallRecord>& stalls = run_->stalls;
  const std::string_view cause = stall_cause();
  if (is_first || stalls.empty() || stalls.back().cause != cause)
    stalls.push_back({now_ns_, end_ns, cause});
  else
    stalls.back().end_ns = end_ns;
  pass_until(end_ns);
}

std::string_view PlanExecutor::stall_cause() const {
  bool leaving = false;
  for (trace::TensorIndex tensor : next_.missing) {
    const int32_t i = tensors_[tensor].current;
    if (i == kNone) continue;
    const bool read = migration(i).action == plan::Action::kPrefetch;
    if (read && !channels_.idle(channel_of(migration(i).tier, false))) return kStallRead;
    leaving = leaving || !read;
  }
  return leaving ? kStallWrite : kStallMemory;
}

Status PlanExecutor::stuck(trace::OpIndex op) {
  for (plan::Tier tier : kTiers)
    if (const int32_t write = first_write(tier); write != kNone) return no_room_on_tier(write);
  const int64_t needed_bytes = next_.bytes + next_.missing_bytes;
  const std::string_view rule = fits(needed_bytes) ? "deadlock" : "device memory";
  return Status(ErrorCode::kInvalidArgument,
                fmt::format("{}: op {} ({}) needs {} bytes more beside {} on the device, the "
                            "budget is {}, and no transfer is left to wait for",
                            rule, op, context_.trace.ops[op].name, needed_bytes, device_bytes_,
                            context_.device_budget_bytes));
}

Status PlanExecutor::no_room_on_tier(int32_t write) const {
  const plan::Tier tier = migration(write).tier;
  return Status(ErrorCode::kInvalidArgument,
                fmt::format("{} capacity: {} does not fit: {} bytes beside {}, the tier holds {}",
                            tier == plan::Tier::kHost ? "host" : "SSD",
                            describe(plan_, context_.trace, write), size_bytes(write),
                            tier_bytes_[slot(tier)], context_.tiers[tier]));
}

// --- The next transfer of an idle channel ---

void PlanExecutor::start_transfers() {
  for (plan::Tier tier : kTiers) {
    if (channels_.idle(channel_of(tier, true))) start_write(tier);
    if (channels_.idle(channel_of(tier, false))) start_read(tier);
  }
}

void PlanExecutor::start_read(plan::Tier tier) {
  const int32_t urgent = urgent_read(tier);
  if (urgent != kNone) {
    if (fits(size_bytes(urgent))) begin_read(urgent);
    return;
  }
  const TransferQueue::Entry* first =
      queues_[slot(tier)].reads.front([this](const auto& entry) { return is_queued(entry); });
  if (first == nullptr) return;
  if (fits(size_bytes(first->transfer) + next_.bytes + next_.missing_bytes))
    begin_read(first->transfer);
}

bool PlanExecutor::is_queued(const TransferQueue::Entry& entry) const {
  const Transfer& transfer = transfers_[entry.transfer];
  return transfer.stage == Stage::kQueued && transfer.sequence == entry.sequence;
}

// The read with the earliest deadline among those that the next op waits for; kNone without one.
int32_t PlanExecutor::urgent_read(plan::Tier tier) const {
  int32_t first = kNone;
  for (trace::TensorIndex tensor : next_.missing) {
    const int32_t i = tensors_[tensor].current;
    if (i == kNone || transfers_[i].stage != Stage::kQueued || migration(i).tier != tier) continue;
    if (migration(i).action != plan::Action::kPrefetch) continue;
    const auto rank = [this](int32_t read) {
      return std::pair(transfers_[read].deadline_op, transfers_[read].sequence);
    };
    if (first == kNone || rank(i) < rank(first)) first = i;
  }
  return first;
}

void PlanExecutor::start_write(plan::Tier tier) {
  const int32_t i = first_write(tier);
  if (i == kNone) return;
  if (tier_bytes_[slot(tier)] + size_bytes(i) > context_.tiers[tier]) return;
  begin_write(i);
}

// Writes run in issue order. But when the next op waits for memory, the write with the earliest
// deadline goes first if that deadline has come.
int32_t PlanExecutor::first_write(plan::Tier tier) {
  const auto waiting = [this](const TransferQueue::Entry& entry) { return is_queued(entry); };
  const TransferQueue::Entry* oldest = queues_[slot(tier)].writes.front(waiting);
  if (oldest == nullptr) return kNone;
  if (next_.is_stalled && !fits(next_.bytes + next_.missing_bytes)) {
    const TransferQueue::Entry* first = queues_[slot(tier)].writes_by_deadline.front(waiting);
    if (first->key <= next_.number) return first->transfer;
  }
  return oldest->transfer;
}

void PlanExecutor::begin_read(int32_t i) {
  take_device(size_bytes(i));
  begin(i, false);
  if (is_missing(migration(i).tensor)) count_missing_bytes();
}

void PlanExecutor::begin_write(int32_t i) {
  take_tier(migration(i).tier, size_bytes(i));
  begin(i, true);
}

void PlanExecutor::begin(int32_t i, bool out) {
  transfers_[i].stage = Stage::kInFlight;
  transfers_[i].start_ns = now_ns_;
  channels_.start(channel_of(migration(i).tier, out), i, size_bytes(i), now_ns_);
}

void PlanExecutor::take_device(int64_t size_bytes) {
  device_bytes_ += size_bytes;
  run_->device_peak_bytes = std::max(run_->device_peak_bytes, device_bytes_);
}

void PlanExecutor::take_tier(plan::Tier tier, int64_t size_bytes) {
  tier_bytes_[slot(tier)] += size_bytes;
  int64_t& peak = tier == plan::Tier::kHost ? run_->host_peak_bytes : run_->ssd_peak_bytes;
  peak = std::max(peak, tier_bytes_[slot(tier)]);
}

}  // namespace teraio::simulate
