#include "planner/bandwidth_ledger.h"

#include <algorithm>

namespace teraio::planner {
namespace {

constexpr double kLeastNs = 1.0;  // less than this counts as 0

double rate(const Rates& rates, Direction direction) {
  return hardware::bytes_per_ns(direction == Direction::kRead ? rates.read_bytes_per_second
                                                              : rates.write_bytes_per_second);
}

}  // namespace

BandwidthLedger::BandwidthLedger(const hardware::Hardware& hardware, std::vector<double> op_ns)
    : count_(static_cast<int64_t>(op_ns.size())),
      latency_ns_(static_cast<double>(hardware.request_latency_ns)),
      ssd_shares_directions_(ssd_duplex(hardware) < 2.0) {
  for (Direction direction : {Direction::kWrite, Direction::kRead}) {
    const double link = rate(hardware.device_link, direction);
    const double ssd = rate(ssd_rates(hardware), direction);
    const double host = rate(hardware.host.rates, direction);
    channels_[index(plan::Tier::kSsd, direction)].bytes_per_ns = std::min(link, ssd);
    channels_[index(plan::Tier::kHost, direction)].bytes_per_ns = std::min(link, host);
    for (double ns : op_ns) link_bytes_[static_cast<size_t>(direction)].push_back(ns * link);
  }
  const double duplex = ssd_duplex(hardware);
  for (double ns : op_ns) ssd_joint_ns_.push_back(ns * duplex);
  for (Channel& channel : channels_) {
    channel.free_ns = op_ns;
    channel.open = OpSet(count_);
  }
  for (int64_t op = 0; op < count_; ++op) refresh(op);
}

double BandwidthLedger::alone_ns(plan::Tier tier, Direction direction, int64_t bytes) const {
  return latency_ns_ + static_cast<double>(bytes) / channels_[index(tier, direction)].bytes_per_ns;
}

double BandwidthLedger::available_ns(size_t channel, int64_t op) const {
  const Channel& own = channels_[channel];
  double ns = std::min(own.free_ns[op], link_bytes_[channel % 2][op] / own.bytes_per_ns);
  if (ssd_shares_directions_ && channel < 2) ns = std::min(ns, ssd_joint_ns_[op]);
  return ns;
}

void BandwidthLedger::take(size_t channel, int64_t op, double ns) {
  channels_[channel].free_ns[op] -= ns;
  link_bytes_[channel % 2][op] -= ns * channels_[channel].bytes_per_ns;
  if (channel < 2) ssd_joint_ns_[op] -= ns;
  refresh(op);
}

void BandwidthLedger::refresh(int64_t op) {
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    Channel& own = channels_[channel];
    if (own.bytes_per_ns > 0 && available_ns(channel, op) >= kLeastNs)
      own.open.insert(op);
    else
      own.open.erase(op);
  }
}

int64_t BandwidthLedger::next_open(const Channel& channel, int64_t op, int64_t bound) const {
  while (op < bound) {
    const int64_t local = op % count_;
    const int64_t open = channel.open.next(local, count_);
    op += open - local;
    if (open < count_) return std::min(bound, op);
  }
  return bound;
}

int64_t BandwidthLedger::previous_open(const Channel& channel, int64_t op, int64_t bound) const {
  while (op > bound) {
    const int64_t local = op % count_;
    const int64_t open = channel.open.previous(local);
    op -= local - open;
    if (open >= 0) return std::max(bound, op);
  }
  return bound;
}

template <typename Visit>
std::optional<int64_t> BandwidthLedger::walk_forward(size_t channel, int64_t first, int64_t end,
                                                     double need_ns, Visit visit) const {
  const Channel& own = channels_[channel];
  for (int64_t op = next_open(own, first, end); op < end; op = next_open(own, op + 1, end)) {
    const double part = std::min(need_ns, available_ns(channel, op % count_));
    visit(op % count_, part);
    need_ns -= part;
    if (need_ns < kLeastNs) return op + 1;
  }
  return std::nullopt;
}

template <typename Visit>
std::optional<int64_t> BandwidthLedger::walk_back(size_t channel, int64_t first, int64_t end,
                                                  double need_ns, Visit visit) const {
  const Channel& own = channels_[channel];
  for (int64_t op = previous_open(own, end - 1, first - 1); op >= first;
       op = previous_open(own, op - 1, first - 1)) {
    const double part = std::min(need_ns, available_ns(channel, op % count_));
    visit(op % count_, part);
    need_ns -= part;
    if (need_ns < kLeastNs) return op;
  }
  return std::nullopt;
}

std::optional<int64_t> BandwidthLedger::write_end(plan::Tier tier, int64_t first, int64_t end,
                                                  int64_t bytes) const {
  return walk_forward(index(tier, Direction::kWrite), first, end,
                      alone_ns(tier, Direction::kWrite, bytes), [](int64_t, double) {});
}

std::optional<int64_t> BandwidthLedger::read_start(plan::Tier tier, int64_t first, int64_t end,
                                                   int64_t bytes) const {
  return walk_back(index(tier, Direction::kRead), first, end,
                   alone_ns(tier, Direction::kRead, bytes), [](int64_t, double) {});
}

BandwidthLedger::Booking BandwidthLedger::book(plan::Tier tier, Direction direction, int64_t first,
                                               int64_t end, int64_t bytes) {
  Booking booking{tier, direction, {}};
  const size_t channel = index(tier, direction);
  const double need_ns = alone_ns(tier, direction, bytes);
  const auto note = [&](int64_t op, double ns) { booking.parts.push_back({op, ns}); };
  if (direction == Direction::kWrite)
    walk_forward(channel, first, end, need_ns, note);
  else
    walk_back(channel, first, end, need_ns, note);
  for (const auto& [op, ns] : booking.parts) take(channel, op, ns);
  return booking;
}

void BandwidthLedger::release(const Booking& booking) {
  const size_t channel = index(booking.tier, booking.direction);
  for (const auto& [op, ns] : booking.parts) take(channel, op, -ns);
}

}  // namespace teraio::planner
