// BandwidthLedger: the bandwidth that planned transfers have booked on each channel.
//
// Time is divided into the ops of one repeating iteration. Per op, the ledger keeps the time that
// is left on the four channels (ssd and host, read and write), the time that is left under the
// joint limit of the ssd (duplex), and the bytes that are left on the device link in each
// direction. A transfer takes what is left, op by op: a write from its trigger on, as early as
// possible; a read backwards from its deadline, as late as possible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "planner/op_set.h"

namespace teraio::planner {

enum class Direction : uint8_t { kWrite, kRead };

// A value type; one thread at a time may change it. Ops are unrolled: op N + k is op k of the next
// iteration.
class BandwidthLedger {
 public:
  // The bandwidth that one transfer has booked: pairs of an op and nanoseconds of the channel.
  struct Booking {
    plan::Tier tier = plan::Tier::kSsd;
    Direction direction = Direction::kWrite;
    std::vector<std::pair<int64_t, double>> parts;
  };

  // `op_ns`: the duration of each op.
  BandwidthLedger(const hardware::Hardware& hardware, std::vector<double> op_ns);

  // Returns the first op that starts after the end of a write that is issued before op `first`;
  // nullopt when that op is after `end`. Books nothing.
  std::optional<int64_t> write_end(plan::Tier tier, int64_t first, int64_t end,
                                   int64_t bytes) const;
  // Returns the last op at or after `first` in which a read can start so that it ends before op
  // `end` starts; nullopt when there is none. Books nothing.
  std::optional<int64_t> read_start(plan::Tier tier, int64_t first, int64_t end,
                                    int64_t bytes) const;

  // Books the bandwidth of the transfer; only a part of it when the range is too short.
  Booking book(plan::Tier tier, Direction direction, int64_t first, int64_t end, int64_t bytes);
  // Gives the bandwidth of a booking back.
  void release(const Booking& booking);

  // Returns how long the transfer takes alone.
  double alone_ns(plan::Tier tier, Direction direction, int64_t bytes) const;
  // Returns the share of request latency in the time of a read that runs alone.
  double latency_share(plan::Tier tier, int64_t bytes) const {
    return latency_ns_ == 0 ? 0 : latency_ns_ / alone_ns(tier, Direction::kRead, bytes);
  }

 private:
  struct Channel {
    double bytes_per_ns = 0;
    std::vector<double> free_ns;
    OpSet open;  // the ops in which bandwidth is left
  };

  static size_t index(plan::Tier tier, Direction direction) {
    return 2 * static_cast<size_t>(tier) + static_cast<size_t>(direction);
  }
  double available_ns(size_t channel, int64_t op) const;
  void take(size_t channel, int64_t op, double ns);
  void refresh(int64_t op);
  // The next open op at or after `op`, or at or before it, unrolled; `bound` when there is none
  // before.
  int64_t next_open(const Channel& channel, int64_t op, int64_t bound) const;
  int64_t previous_open(const Channel& channel, int64_t op, int64_t bound) const;
  template <typename Visit>
  std::optional<int64_t> walk_forward(size_t channel, int64_t first, int64_t end, double need_ns,
                                      Visit visit) const;
  template <typename Visit>
  std::optional<int64_t> walk_back(size_t channel, int64_t first, int64_t end, double need_ns,
                                   Visit visit) const;

  int64_t count_;
  double latency_ns_;
  bool ssd_shares_directions_;
  std::array<Channel, 4> channels_;
  std::vector<double> ssd_joint_ns_;               // what is left of duplex * duration
  std::array<std::vector<double>, 2> link_bytes_;  // by direction
};

}  // namespace teraio::planner
