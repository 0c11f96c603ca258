// DriveMeter: measures what a drive has moved, how long it was busy, and how fast it is under load.
//
// Times are nanoseconds of one clock and never decrease. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "storage/load_meter.h"
#include "storage/tier_store.h"

namespace teraio::storage {

class DriveMeter {
 public:
  // A direction is under load while at least half of the requests that may be in flight
  // are, and at least two if two may be. Fewer do not show what the drive can do. `in_flight_max`
  // holds the most requests in flight per direction.
  DriveMeter(std::string name, std::string io_path, const std::array<int32_t, 2>& in_flight_max);

  // A request has ended.
  void add_bytes(io::Direction direction, int64_t size_bytes, bool was_gpu_direct = false);
  void set_gpu_direct_off(std::string reason) { counters_.gpu_direct_off = std::move(reason); }
  void add_error() { ++counters_.error_count; }
  void add_unanswered() { ++counters_.unanswered_count; }
  void set_slowdown(io::Direction direction, std::string text);

  // Reports that `in_flight` requests are in flight from now on, and that the bytes added since the
  // last call were moved by now. Returns true if a second under load has passed, so that rate() is
  // new.
  bool note(io::Direction direction, int32_t in_flight, int64_t now_ns);

  // Bytes per second under load, weighted towards recent seconds; 0 if not yet known.
  double rate(io::Direction direction) const { return lane(direction).rate; }

  // The fraction, 0 to 1, of the time behind the last sample of rate() in which the other direction
  // was busy too.
  double shared(io::Direction direction) const { return lane(direction).shared; }

  // The rate at which bytes go out and come back; 0 until both directions are known.
  double round_trip_rate() const;

  DriveCounters counters(int64_t now_ns) const;

 private:
  struct Lane {
    int32_t loaded_in_flight = 1;  // under load from this number of requests on
    int64_t noted_ns = 0;
    int32_t in_flight = 0;
    int64_t bytes = 0;
    int64_t bytes_since_note = 0;
    int64_t ended_since_note = 0;  // requests
    int64_t busy_ns = 0;
    int64_t loaded_bytes = 0;
    int64_t loaded_ns = 0;
    double rate = 0;
    int64_t other_busy_ns = 0;  // of the other direction, at the last note()
    int64_t shared_ns = 0;
    double shared = 0;
    std::string slowdown;

    bool is_loaded() const { return in_flight >= loaded_in_flight; }
    int64_t busy_ns_until(int64_t now_ns) const {
      return busy_ns + (in_flight > 0 ? now_ns - noted_ns : 0);
    }
  };

  Lane& lane(io::Direction direction) { return lanes_[static_cast<size_t>(direction)]; }
  const Lane& lane(io::Direction direction) const { return lanes_[static_cast<size_t>(direction)]; }

  // Gives the load meter what `direction` has moved since the last note() of any direction, and the
  // time that it took. Under each load, that is what ends after all requests that were in flight
  // when it began: a drive may serve them at the same time, or have begun before. What has not
  // ended when the load does is left out with its time.
  void note_load(io::Direction direction, int64_t now_ns);
  void pass_time_under(std::optional<Load> load, int64_t duration_ns);
  // Returns nothing where the drive is not under load.
  std::optional<Load> load() const;

  DriveCounters counters_;  // without the fields that the lanes and the load meter hold
  std::array<Lane, 2> lanes_;
  LoadMeter load_meter_;
  std::optional<Load> load_;         // in the time before the last note() of any direction
  std::array<int64_t, 2> to_end_{};  // by direction: requests of those that the load began with
  bool is_settled_ = false;          // these had ended before that time
  int64_t unmetered_ns_ = 0;         // since the last request that the load meter knows
  int64_t noted_ns_ = 0;
};

}  // namespace teraio::storage
