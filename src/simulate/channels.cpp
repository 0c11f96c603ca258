#include "simulate/channels.h"

#include <algorithm>
#include <cmath>

namespace teraio::simulate {
namespace {

constexpr int kSsdIn = channel_of(plan::Tier::kSsd, false);
constexpr int kHostIn = channel_of(plan::Tier::kHost, false);
constexpr int kSsdOut = channel_of(plan::Tier::kSsd, true);
constexpr int kHostOut = channel_of(plan::Tier::kHost, true);

// The max-min fair rate of the first of two demands on a link.
double fair_share(double link, double own, double other) {
  return std::min(own, std::max(link / 2, link - other));
}

}  // namespace

std::array<double, kChannelCount> channel_rates(const hardware::Hardware& hardware,
                                                const std::array<bool, kChannelCount>& moving) {
  const Rates drives = ssd_rates(hardware);
  const double read = hardware::bytes_per_ns(drives.read_bytes_per_second);
  const double write = hardware::bytes_per_ns(drives.write_bytes_per_second);
  const double duplex = ssd_duplex(hardware);
  const double link_in = hardware::bytes_per_ns(hardware.device_link.read_bytes_per_second);
  const double link_out = hardware::bytes_per_ns(hardware.device_link.write_bytes_per_second);
  const double host_in =
      moving[kHostIn] ? hardware::bytes_per_ns(hardware.host.rates.read_bytes_per_second) : 0;
  const double host_out =
      moving[kHostOut] ? hardware::bytes_per_ns(hardware.host.rates.write_bytes_per_second) : 0;

  const bool both = moving[kSsdIn] && moving[kSsdOut];
  const double share = std::min(1.0, both ? duplex / 2 : duplex);
  double ssd_in = moving[kSsdIn] ? fair_share(link_in, share * read, host_in) : 0;
  double ssd_out = moving[kSsdOut] ? fair_share(link_out, share * write, host_out) : 0;
  if (both) {
    const double left_in = std::min(1.0, duplex - ssd_out / write);
    const double left_out = std::min(1.0, duplex - ssd_in / read);
    ssd_in = std::max(ssd_in, fair_share(link_in, left_in * read, host_in));
    ssd_out = std::max(ssd_out, fair_share(link_out, left_out * write, host_out));
  }
  std::array<double, kChannelCount> rates;
  rates[kSsdIn] = ssd_in;
  rates[kSsdOut] = ssd_out;
  rates[kHostIn] = fair_share(link_in, host_in, ssd_in);
  rates[kHostOut] = fair_share(link_out, host_out, ssd_out);
  return rates;
}

Channels::Channels(const hardware::Hardware& hardware) : latency_ns_(hardware.request_latency_ns) {
  for (unsigned mask = 0; mask < rates_.size(); ++mask) {
    std::array<bool, kChannelCount> moving;
    for (int c = 0; c < kChannelCount; ++c) moving[c] = (mask >> c) & 1;
    rates_[mask] = channel_rates(hardware, moving);
  }
}

void Channels::start(int channel, int32_t transfer, int64_t size_bytes, int64_t now_ns) {
  progress_to(now_ns);
  ActiveTransfer& active = active_[channel];
  active.transfer = transfer;
  active.remaining_bytes = static_cast<double>(size_bytes);
  active.moving = latency_ns_ == 0;
  active.end_ns = now_ns + latency_ns_;
  update(now_ns);
}

void Channels::stop(int channel, int64_t now_ns) {
  progress_to(now_ns);
  active_[channel] = ActiveTransfer();
  update(now_ns);
}

void Channels::rebase(int64_t by_ns) {
  progressed_ns_ -= by_ns;
  if (next_event_ns_ != kNoTime) next_event_ns_ -= by_ns;
  for (ActiveTransfer& active : active_)
    if (active.transfer >= 0) active.end_ns -= by_ns;
}

void Channels::progress_to(int64_t now_ns) {
  const auto elapsed_ns = static_cast<double>(now_ns - progressed_ns_);
  progressed_ns_ = now_ns;
  for (ActiveTransfer& active : active_)
    if (active.moving) active.remaining_bytes -= active.rate * elapsed_ns;
}

int Channels::end_phases(int64_t now_ns, std::array<int32_t, kChannelCount>& ended) {
  int count = 0;
  for (ActiveTransfer& active : active_) {
    if (active.transfer < 0 || active.end_ns > now_ns) continue;
    if (active.moving) {
      ended[count++] = active.transfer;
      active = ActiveTransfer();
    } else {
      active.moving = true;
    }
  }
  return count;
}

void Channels::update(int64_t now_ns) {
  const std::array<double, kChannelCount>& rates = rates_[moving_mask()];
  next_event_ns_ = kNoTime;
  for (int c = 0; c < kChannelCount; ++c) {
    ActiveTransfer& active = active_[c];
    if (active.transfer < 0) continue;
    if (active.moving) {
      active.rate = rates[c];
      const double left_ns = std::max(0.0, active.remaining_bytes) / active.rate;
      active.end_ns = now_ns + static_cast<int64_t>(std::ceil(left_ns));
    }
    next_event_ns_ = std::min(next_event_ns_, active.end_ns);
  }
}

unsigned Channels::moving_mask() const {
  unsigned mask = 0;
  for (int c = 0; c < kChannelCount; ++c) mask |= static_cast<unsigned>(active_[c].moving) << c;
  return mask;
}

}  // namespace teraio::simulate
