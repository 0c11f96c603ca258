// CopyOrder: chooses the stream for each copy of one direction.
//
// A copy waits for a point of compute's order, which the program may have only just enqueued. On a
// single stream it would hold up all copies behind it: of other drives and tiers, and of the same
// one where a more urgent transfer overtakes, although their points have passed. Every copy
// therefore goes on a stream where those before it wait for no later point than its own. As long as
// copies come in the order of their points, that is the same stream.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "device/device.h"

namespace teraio::device {

class CopyOrder {
 public:
  // Points go back where a drive or a tier takes up what another one has overtaken. With more of
  // them at once than streams, the last one waits.
  static constexpr size_t kStreams = 4;

  // Returns the stream for a copy that waits for `after`, an event of compute or 0.
  // `has_passed(event)` is asked only when copies do not come in the order of their points. When
  // each stream has a later point that has not passed, it is the one with the earliest.
  template <typename HasPassed>
  size_t choose(Event after, HasPassed has_passed) {
    size_t chosen = kStreams;
    for (size_t stream = 0; stream < kStreams; ++stream)
      if (last_[stream].id <= after.id &&
          (chosen == kStreams || last_[chosen].id < last_[stream].id))
        chosen = stream;
    if (chosen == kStreams) chosen = first_without_wait(has_passed);
    if (last_[chosen].id < after.id) last_[chosen] = after;
    return chosen;
  }

 private:
  template <typename HasPassed>
  size_t first_without_wait(HasPassed has_passed) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      if (!has_passed(last_[stream])) continue;
      last_[stream] = Event();
      return stream;
    }
    const auto earliest =
        std::min_element(last_.begin(), last_.end(), [](Event a, Event b) { return a.id < b.id; });
    return static_cast<size_t>(earliest - last_.begin());
  }

  std::array<Event, kStreams> last_;  // by stream: the latest point that a copy on it waits for
};

}  // namespace teraio::device
