// The file of a timeline: Chrome trace events on Unix time, as torch.profiler writes them, with the
// rows of the simulator's timelines (simulate/run_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/timeline.h"

namespace teraio::engine {

struct TimelineProcess {
  int64_t id = 0;                       // the system's
  std::string name;                     // for people
  std::vector<std::string> ssd_drives;  // of the ssd tier, in its order
};

// Returns the file as text. The row of a thread has a number that no thread of the system has, so
// that the file can be merged with others of the same process.
std::string timeline_text(const TimelineRecord& record, const TimelineProcess& process);

}  // namespace teraio::engine
