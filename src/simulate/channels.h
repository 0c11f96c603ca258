// Channels: the transfers in flight, at most one per tier and direction, and how they share the
// drives and the device link.
//
//   ssd in  ----+                      each runs one transfer at a time, pays the request latency
//   host in ----+--> link, read        first, and then moves bytes at a rate that only changes when
//   ssd out ----+                      another channel starts or stops moving bytes.
//   host out ---+--> link, write
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "hardware/hardware.h"
#include "plan/plan.h"

namespace teraio::simulate {

inline constexpr int kChannelCount = 4;
inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::max();

// 0: ssd in, 1: host in, 2: ssd out, 3: host out.
constexpr int channel_of(plan::Tier tier, bool out) {
  return static_cast<int>(tier == plan::Tier::kHost) + 2 * static_cast<int>(out);
}

// Returns the bytes per nanosecond of each channel when the channels in `moving` move bytes at the
// same time. The link is shared max-min fairly. When drives with a duplex below 2 read and write at
// once, each direction gets half of the duplex, and what one direction cannot use goes to the
// other.
std::array<double, kChannelCount> channel_rates(const hardware::Hardware& hardware,
                                                const std::array<bool, kChannelCount>& moving);

// A value type; one thread at a time may use it. Times are in nanoseconds and never decrease from
// call to call, except through rebase().
class Channels {
 public:
  explicit Channels(const hardware::Hardware& hardware);

  bool idle(int channel) const { return active_[channel].transfer < 0; }
  int32_t transfer(int channel) const { return active_[channel].transfer; }
  // The bytes that had not been moved at the last call that changed this object.
  double remaining_bytes(int channel) const { return active_[channel].remaining_bytes; }

  // Starts a transfer. Requires idle(channel).
  void start(int channel, int32_t transfer, int64_t size_bytes, int64_t now_ns);

  // Cancels the transfer of the channel, which becomes idle.
  void stop(int channel, int64_t now_ns);

  // The time at which the next channel ends its request latency or its transfer; kNoTime when all
  // channels are idle.
  int64_t next_event_ns() const { return next_event_ns_; }

  // Advances to next_event_ns() and calls done(transfer) for each transfer that ends then. Requires
  // that a channel is not idle.
  template <typename Done>
  void advance(Done done) {
    const int64_t now_ns = next_event_ns_;
    progress_to(now_ns);
    std::array<int32_t, kChannelCount> ended;
    const int count = end_phases(now_ns, ended);
    update(now_ns);
    for (int i = 0; i < count; ++i) done(ended[i]);
  }

  // Moves the origin of time forward by `by_ns`: subtracts it from all times.
  void rebase(int64_t by_ns);

 private:
  struct ActiveTransfer {
    int32_t transfer = -1;
    bool moving = false;  // its request latency has passed
    double remaining_bytes = 0;
    double rate = 0;  // bytes per ns
    int64_t end_ns = kNoTime;
  };

  void progress_to(int64_t now_ns);
  int end_phases(int64_t now_ns, std::array<int32_t, kChannelCount>& ended);
  void update(int64_t now_ns);
  unsigned moving_mask() const;

  std::array<std::array<double, kChannelCount>, 1 << kChannelCount> rates_;  // by moving_mask()
  int64_t latency_ns_;
  std::array<ActiveTransfer, kChannelCount> active_;
  int64_t progressed_ns_ = 0;
  int64_t next_event_ns_ = kNoTime;
};

}  // namespace teraio::simulate
