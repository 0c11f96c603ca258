#include "engine/iteration_log.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "plan/plan.h"

namespace teraio::engine {
namespace {

void add(IterationRecord& whole, const IterationRecord& part) {
  using Record = IterationRecord;
  for (const auto field :
       {&Record::duration_ns, &Record::stall_read_ns, &Record::stall_memory_ns,
        &Record::ssd_bytes_read, &Record::ssd_bytes_written, &Record::host_bytes_read,
        &Record::host_bytes_written, &Record::op_count, &Record::planned_op_count})
    whole.*field += part.*field;
  whole.device_peak_bytes = std::max(whole.device_peak_bytes, part.device_peak_bytes);
}

}  // namespace

void IterationLog::start_iteration(int64_t now_ns, const EngineCounters& counters) {
  start_ns_ = now_ns;
  counters_at_start_ = counters;
  for (size_t tier = 0; tier < kTierCount; ++tier)
    if (const storage::TierStore* store = options_.stores[tier])
      tiers_at_start_[tier] = store->counters();
  last_samples_ = std::exchange(samples_, {});
  samples_.reserve(last_samples_.size());
  options_.device->reset_peak();
}

void IterationLog::end_iteration(int64_t now_ns, const EngineCounters& counters, int64_t op_count,
                                 int64_t planned_op_count, IterationRecord::Mode mode) {
  IterationRecord record;
  record.duration_ns = now_ns - start_ns_;
  record.stall_read_ns = counters.stall_read_ns - counters_at_start_.stall_read_ns;
  record.stall_memory_ns = counters.stall_memory_ns - counters_at_start_.stall_memory_ns;
  const auto moved = [&](plan::Tier tier) {
    const auto i = static_cast<size_t>(tier);
    const storage::TierStore* store = options_.stores[i];
    const storage::TierCounters now =
        store == nullptr ? storage::TierCounters() : store->counters();
    return std::pair(now.bytes_read - tiers_at_start_[i].bytes_read,
                     now.bytes_written - tiers_at_start_[i].bytes_written);
  };
  std::tie(record.ssd_bytes_read, record.ssd_bytes_written) = moved(plan::Tier::kSsd);
  std::tie(record.host_bytes_read, record.host_bytes_written) = moved(plan::Tier::kHost);
  record.device_peak_bytes = options_.device->usage().allocated_peak_bytes;
  record.op_count = op_count;
  record.planned_op_count = planned_op_count;
  record.mode = mode;
  add(record, std::exchange(joined_, {}));
  iterations_.push_back(record);
  if (iterations_.size() <= iterations_max_) return;
  iterations_.pop_front();
  ++forgotten_count_;
}

void IterationLog::join(std::span<const int64_t> counts) {
  std::vector<IterationRecord> wholes;
  for (const int64_t count : counts) wholes.push_back(take_newest(count));
  if (wholes.empty()) return;
  add(joined_, wholes.front());
  iterations_.insert(iterations_.end(), wholes.rbegin(), wholes.rend() - 1);
}

// As one.
IterationRecord IterationLog::take_newest(int64_t count) {
  if (count == 0) return {};
  IterationRecord whole = iterations_.back();
  iterations_.pop_back();
  for (int64_t i = 1; i < count; ++i) {
    const IterationRecord& part = iterations_.back();
    add(whole, part);
    whole.pattern = 0;
    if (part.mode != whole.mode) whole.mode = IterationRecord::Mode::kDeviated;
    iterations_.pop_back();
  }
  return whole;
}

std::vector<IterationRecord> IterationLog::iterations(size_t first) const {
  const size_t skipped = std::min(first - std::min(first, forgotten_count_), iterations_.size());
  return {iterations_.begin() + static_cast<ptrdiff_t>(skipped), iterations_.end()};
}

}  // namespace teraio::engine
