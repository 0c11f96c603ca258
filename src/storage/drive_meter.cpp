#include "storage/drive_meter.h"

#include <algorithm>
#include <utility>

namespace teraio::storage {
namespace {

constexpr int64_t kLoadedNs = 1'000'000'000;

}  // namespace

DriveMeter::DriveMeter(std::string name, std::string io_path,
                       const std::array<int32_t, 2>& in_flight_max) {
  counters_.name = std::move(name);
  counters_.io_path = std::move(io_path);
  for (size_t i = 0; i < in_flight_max.size(); ++i)
    lanes_[i].loaded_in_flight =
        std::min(in_flight_max[i], std::max(2, (in_flight_max[i] + 1) / 2));
}

void DriveMeter::add_bytes(io::Direction direction, int64_t size_bytes, bool was_gpu_direct) {
  const bool is_read = direction == io::Direction::kRead;
  if (was_gpu_direct)
    (is_read ? counters_.gpu_direct_bytes_read : counters_.gpu_direct_bytes_written) += size_bytes;
  lane(direction).bytes += size_bytes;
  lane(direction).bytes_since_note += size_bytes;
  ++lane(direction).ended_since_note;
}

void DriveMeter::note_load(io::Direction direction, int64_t now_ns) {
  const int64_t elapsed_ns = now_ns - std::exchange(noted_ns_, now_ns);
  // Both directions are noted at one time, one after the other.
  if (elapsed_ns > 0) pass_time_under(load(), elapsed_ns);
  const int64_t bytes = lane(direction).bytes_since_note;
  if (!load_ || bytes == 0) return;
  const bool is_read = direction == io::Direction::kRead;
  if (is_settled_)
    load_meter_.add(*load_, std::exchange(unmetered_ns_, 0), is_read ? bytes : 0,
                    is_read ? 0 : bytes);
  to_end_[static_cast<size_t>(direction)] -= lane(direction).ended_since_note;
}

void DriveMeter::pass_time_under(std::optional<Load> load, int64_t duration_ns) {
  if (std::exchange(load_, load) != load) {
    to_end_ = {lanes_[0].in_flight, lanes_[1].in_flight};
    unmetered_ns_ = 0;
  }
  is_settled_ = to_end_[0] <= 0 && to_end_[1] <= 0;
  if (is_settled_) unmetered_ns_ += duration_ns;
}

std::optional<Load> DriveMeter::load() const {
  const Lane& reads = lane(io::Direction::kRead);
  const Lane& writes = lane(io::Direction::kWrite);
  if (reads.is_loaded() && writes.is_loaded()) return Load::kBoth;
  if (reads.is_loaded() && writes.in_flight == 0) return Load::kReads;
  if (writes.is_loaded() && reads.in_flight == 0) return Load::kWrites;
  return std::nullopt;
}

bool DriveMeter::note(io::Direction direction, int32_t in_flight, int64_t now_ns) {
  note_load(direction, now_ns);
  Lane& own = lane(direction);
  const Lane& other = lanes_[1 - static_cast<size_t>(direction)];
  const int64_t other_busy_ns = other.busy_ns_until(now_ns);
  const int64_t elapsed_ns = now_ns - own.noted_ns;
  own.busy_ns = own.busy_ns_until(now_ns);
  if (own.is_loaded()) {
    own.loaded_ns += elapsed_ns;
    own.loaded_bytes += own.bytes_since_note;
    own.shared_ns += other_busy_ns - own.other_busy_ns;
  }
  own.other_busy_ns = other_busy_ns;
  own.noted_ns = now_ns;
  own.in_flight = in_flight;
  own.bytes_since_note = 0;
  own.ended_since_note = 0;
  if (own.loaded_ns < kLoadedNs) return false;
  const double sample =
      static_cast<double>(own.loaded_bytes) * 1e9 / static_cast<double>(own.loaded_ns);
  own.rate = own.rate > 0 ? (own.rate + sample) / 2 : sample;
  own.shared = static_cast<double>(own.shared_ns) / static_cast<double>(own.loaded_ns);
  own.shared_ns = 0;
  own.loaded_ns = 0;
  own.loaded_bytes = 0;
  return true;
}

void DriveMeter::set_slowdown(io::Direction direction, std::string text) {
  lane(direction).slowdown = std::move(text);
}

double DriveMeter::round_trip_rate() const {
  const double read = rate(io::Direction::kRead);
  const double write = rate(io::Direction::kWrite);
  return read > 0 && write > 0 ? read * write / (read + write) : 0;
}

DriveCounters DriveMeter::counters(int64_t now_ns) const {
  DriveCounters counters = counters_;
  const Lane& reads = lane(io::Direction::kRead);
  const Lane& writes = lane(io::Direction::kWrite);
  counters.bytes_read = reads.bytes;
  counters.bytes_written = writes.bytes;
  counters.read_busy_ns = reads.busy_ns_until(now_ns);
  counters.write_busy_ns = writes.busy_ns_until(now_ns);
  counters.recent_rates.read_bytes_per_second = static_cast<int64_t>(reads.rate);
  counters.recent_rates.write_bytes_per_second = static_cast<int64_t>(writes.rate);
  counters.reads_alone = load_meter_.rates(Load::kReads);
  counters.writes_alone = load_meter_.rates(Load::kWrites);
  counters.both_at_once = load_meter_.rates(Load::kBoth);
  counters.slowdown = reads.slowdown;
  if (!reads.slowdown.empty() && !writes.slowdown.empty()) counters.slowdown += "; ";
  counters.slowdown += writes.slowdown;
  return counters;
}

}  // namespace teraio::storage
