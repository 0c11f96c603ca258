// DriveMeter: what a drive has moved, how long it was busy, and how fast it is under load.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "storage/tier_store.h"

namespace teraio::storage {

// Not thread-safe.
class DriveMeter {
 public:
  // A direction is under load while at least half its window is in flight, and more than one
  // request where the window has room for two. Less tells nothing of what the drive could do.
  DriveMeter(std::string name, std::string io_path, const std::array<int32_t, 2>& windows);

  void add_bytes(io::Direction direction, int64_t size_bytes, bool was_gpu_direct = false);
  void set_gpu_direct_off(std::string reason) { counters_.gpu_direct_off = std::move(reason); }
  void add_error() { ++counters_.error_count; }
  void set_slowdown(io::Direction direction, std::string text);

  // From now on so many requests are in flight; what was added since the last call moved until now.
  // True: a second under load has passed and rate() is new.
  bool note(io::Direction direction, int32_t in_flight, int64_t now_ns);

  // Bytes per second under load, recent seconds counting most; 0: not known yet.
  double rate(io::Direction direction) const { return lane(direction).rate; }

  // How much of the time that rate() was last measured in the other direction was busy too: 0 to 1.
  double shared(io::Direction direction) const { return lane(direction).shared; }

  // Of bytes that go out and come back; 0 until both directions are known.
  double round_trip_rate() const;

  DriveCounters counters(int64_t now_ns) const;

 private:
  struct Lane {
    int32_t loaded_in_flight = 1;  // under load from so many on
    int64_t noted_ns = 0;
    int32_t in_flight = 0;
    int64_t bytes = 0;
    int64_t bytes_since_note = 0;
    int64_t busy_ns = 0;
    int64_t loaded_bytes = 0;
    int64_t loaded_ns = 0;
    double rate = 0;
    int64_t other_busy_ns = 0;  // of the other direction, when last noted
    int64_t shared_ns = 0;
    double shared = 0;
    std::string slowdown;

    int64_t busy_ns_until(int64_t now_ns) const {
      return busy_ns + (in_flight > 0 ? now_ns - noted_ns : 0);
    }
  };

  Lane& lane(io::Direction direction) { return lanes_[static_cast<size_t>(direction)]; }
  const Lane& lane(io::Direction direction) const { return lanes_[static_cast<size_t>(direction)]; }

  DriveCounters counters_;  // of it the parts that the lanes do not hold
  std::array<Lane, 2> lanes_;
};

}  // namespace teraio::storage
