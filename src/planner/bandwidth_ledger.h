// BandwidthLedger: which transfers are planned when, on every channel.
//
// Time is cut into the ops of one repeating iteration. Per op the ledger keeps what is left of the
// four channels (ssd and host, read and write), of the ssd's joint limit (duplex) and of the device
// link in each direction. A transfer fills what is left, op by op: a write from its trigger on, as
// early as it can; a read backwards from its deadline, as late as it can.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hardware/hardware.h"
#include "plan/plan.h"

namespace teraio::planner {

enum class Direction : uint8_t { kWrite, kRead };

class BandwidthLedger {
 public:
  // What one transfer took: (op of the iteration, nanoseconds of the channel).
  struct Booking {
    plan::Tier tier = plan::Tier::kSsd;
    Direction direction = Direction::kWrite;
    std::vector<std::pair<int64_t, double>> parts;
  };

  BandwidthLedger(const hardware::Hardware& hardware, std::vector<double> op_ns);

  // The first unrolled op that runs wholly after a write issued before op `first`; nothing when
  // that is after `end`. Does not book.
  std::optional<int64_t> write_end(plan::Tier tier, int64_t first, int64_t end,
                                   int64_t bytes) const;
  // The last unrolled op at or after `first` in which a read must start that is done before op
  // `end` starts; nothing when there is none.
  std::optional<int64_t> read_start(plan::Tier tier, int64_t first, int64_t end,
                                    int64_t bytes) const;

  // The same, and takes the bandwidth. Books as much as there is when the range is too short.
  Booking book_write(plan::Tier tier, int64_t first, int64_t end, int64_t bytes);
  Booking book_read(plan::Tier tier, int64_t first, int64_t end, int64_t bytes);
  void release(const Booking& booking);

  // How long the transfer takes alone.
  double alone_ns(plan::Tier tier, Direction direction, int64_t bytes) const;
  // The part of a read that is request latency.
  double latency_share(plan::Tier tier, int64_t bytes) const {
    return latency_ns_ == 0 ? 0 : latency_ns_ / alone_ns(tier, Direction::kRead, bytes);
  }
  // The part of its own rate that the host channel keeps while the ssd's runs at `ssd_speed` of
  // its.
  double host_share(Direction direction, double ssd_speed) const;

 private:
  struct Channel {
    double bytes_per_ns = 0;
    std::vector<double> free_ns;
    std::vector<uint64_t> open;  // bit per op: something is left there
  };

  static size_t index(plan::Tier tier, Direction direction) {
    return 2 * static_cast<size_t>(tier) + static_cast<size_t>(direction);
  }
  double available_ns(size_t channel, int64_t op) const;
  void take(size_t channel, int64_t op, double ns);
  void refresh(int64_t op);
  // The next open op at or after / at or before `op`, unrolled; `bound` when there is none before.
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
  std::array<double, 2> link_bytes_per_ns_;  // by direction
  bool ssd_shares_directions_;
  std::array<Channel, 4> channels_;
  std::vector<double> ssd_joint_ns_;               // left of duplex * duration
  std::array<std::vector<double>, 2> link_bytes_;  // by direction
};

}  // namespace teraio::planner
