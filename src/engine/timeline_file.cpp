#include "engine/timeline_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/chrome_trace.h"

namespace teraio::engine {
namespace {

using Details = ChromeTrace::Details;

// The system's numbers of threads are smaller.
constexpr int64_t kFirstRow = int64_t{1} << 22;

double as_microseconds(int64_t duration_ns) { return static_cast<double>(duration_ns) / 1e3; }

std::string_view mode_name(IterationRecord::Mode mode) {
  switch (mode) {
    case IterationRecord::Mode::kOnDemand:
      return "on demand";
    case IterationRecord::Mode::kPlanned:
      return "planned";
    case IterationRecord::Mode::kDeviated:
      return "deviated";
  }
  return "";
}

std::string tensor_name(const TensorLabel& tensor, uint64_t id) {
  return tensor.name.empty() ? fmt::format("tensor {}", id) : std::string(tensor.name);
}

// Spans under one heading. Those that overlap need several rows.
class Track {
 public:
  explicit Track(std::string name) : name_(std::move(name)) {}

  void add(std::string name, int64_t start_ns, int64_t end_ns, Details details) {
    spans_.push_back({std::move(name), start_ns, end_ns, std::move(details)});
  }

  // Returns the row after the track's last one.
  int64_t write(ChromeTrace& file, int64_t first_row) {
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
    std::vector<int64_t> free_since_ns;  // by row
    for (const Span& span : spans_) {
      const auto is_free = [&](int64_t since_ns) { return since_ns <= span.start_ns; };
      auto row = std::find_if(free_since_ns.begin(), free_since_ns.end(), is_free);
      if (row == free_since_ns.end()) row = free_since_ns.insert(row, 0);
      *row = span.end_ns;
      file.add_span(first_row + (row - free_since_ns.begin()), span.name, span.start_ns,
                    span.end_ns, span.details);
    }
    for (size_t row = 0; row < free_since_ns.size(); ++row)
      file.name_row(first_row + static_cast<int64_t>(row), name_);
    return first_row + static_cast<int64_t>(free_since_ns.size());
  }

 private:
  struct Span {
    std::string name;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    Details details;
  };

  std::string name_;
  std::vector<Span> spans_;
};

class TimelineWriter {
 public:
  TimelineWriter(const TimelineRecord& record, const TimelineProcess& process)
      : record_(record), process_(process), file_(process.id, first_ns(record)) {}

  std::string text() {
    file_.name_process(process_.name);
    write({steps()});
    write({modules()});
    write(compute());
    write({stalls()});
    write(channels());
    write({replays()});
    add_levels();
    return file_.text({{"schemaVersion", 1},
                       {"baseTimeNanoseconds", first_ns(record_) + record_.unix_offset_ns}});
  }

 private:
  // A transfer may have begun before the steps of the record.
  static int64_t first_ns(const TimelineRecord& record) {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    const auto look_at = [&](const auto& spans) {
      for (const auto& span : spans) first_ns = std::min(first_ns, span.start_ns);
    };
    look_at(record.steps);
    look_at(record.ops);
    look_at(record.stalls);
    look_at(record.transfers);
    look_at(record.replays);
    return first_ns;
  }

  void write(std::vector<Track> tracks) {
    for (Track& track : tracks) next_row_ = track.write(file_, next_row_);
  }

  Track steps() const {
    Track track("steps");
    for (const StepSpan& step : record_.steps)
      track.add(fmt::format("step {}", step.index), step.start_ns, step.end_ns,
                {{"step", step.index}, {"mode", mode_name(step.mode)}});
    return track;
  }

  // A row per thread that runs ops.
  std::vector<Track> compute() const {
    std::map<uintptr_t, size_t> track_of;
    std::vector<Track> tracks;
    for (const OpSpan& op : record_.ops) {
      const auto [found, is_new] = track_of.try_emplace(op.thread, tracks.size());
      if (is_new)
        tracks.emplace_back(tracks.empty() ? "compute"
                                           : fmt::format("compute, thread {}", tracks.size() + 1));
      Details details = Details::object();
      if (op.position != iteration::kLost) details["op"] = op.position;
      if (!op.origin.module.empty()) details["module"] = op.origin.module;
      if (op.origin.is_backward) details["pass"] = "backward";
      if (!op.origin.location.empty()) details["line"] = op.origin.location;
      tracks[found->second].add(std::string(op.name), op.start_ns, op.end_ns, std::move(details));
    }
    return tracks;
  }

  // A span from the first to the last of the ops in a row that come from the same module.
  Track modules() const {
    Track track("modules");
    const OpSpan* first = nullptr;
    const OpSpan* last = nullptr;
    const auto add = [&] {
      if (first == nullptr || first->origin.module.empty()) return;
      const std::string_view pass = first->origin.is_backward ? " backward" : "";
      track.add(fmt::format("{}{}", first->origin.module, pass), first->start_ns, last->end_ns,
                Details::object());
    };
    for (const OpSpan& op : record_.ops) {
      if (first == nullptr || op.origin.module != first->origin.module ||
          op.origin.is_backward != first->origin.is_backward) {
        add();
        first = &op;
      }
      last = &op;
    }
    add();
    return track;
  }

  Track stalls() const {
    Track track("stall");
    for (const StallSpan& stall : record_.stalls)
      track.add(stall_name(stall), stall.start_ns, stall.end_ns,
                {{"cause", stall.cause == StallCause::kRead ? "read" : "memory"}});
    return track;
  }

  // The wait belongs to the op of the same thread that runs or begins when it ends.
  std::string stall_name(const StallSpan& stall) const {
    auto op =
        std::lower_bound(record_.ops.begin(), record_.ops.end(), stall.end_ns,
                         [](const OpSpan& op, int64_t time_ns) { return op.end_ns < time_ns; });
    while (op != record_.ops.end() && op->thread != stall.thread) ++op;
    if (op == record_.ops.end()) return "wait";
    return fmt::format("{} {}", op->start_ns < stall.end_ns ? "in" : "before", op->name);
  }

  // A row per drive and direction, more where transfers overlap.
  std::vector<Track> channels() const {
    std::map<std::string, Track> tracks;
    for (const TransferSpan& transfer : record_.transfers) {
      const std::string channel = channel_of(transfer);
      tracks.try_emplace(channel, channel)
          .first->second.add(tensor_name(transfer.tensor, transfer.id), transfer.start_ns,
                             transfer.end_ns, details_of(transfer));
    }
    std::vector<Track> in_order;
    for (auto& [name, track] : tracks) in_order.push_back(std::move(track));
    return in_order;
  }

  std::string channel_of(const TransferSpan& transfer) const {
    if (!plan::uses_tier(transfer.action) || transfer.action == plan::Action::kDrop) return "drops";
    const auto drive = static_cast<size_t>(transfer.drive);
    const std::string tier = transfer.tier == plan::Tier::kHost
                                 ? "host"
                                 : fmt::format("SSD {}", process_.ssd_drives.at(drive));
    return transfer.action == plan::Action::kPrefetch ? tier + " to device" : "device to " + tier;
  }

  static Details details_of(const TransferSpan& transfer) {
    Details details = {{"action", to_string(transfer.action)},
                       {"tensor", transfer.id},
                       {"kind", to_string(transfer.tensor.kind)},
                       {"bytes", transfer.size_bytes}};
    if (transfer.action == plan::Action::kDrop || transfer.action == plan::Action::kDiscard)
      return details;
    details["queued_us"] = as_microseconds(transfer.start_ns - transfer.submit_ns);
    details["urgent"] = transfer.is_urgent;
    if (transfer.error != ErrorCode::kOk) details["error"] = to_string(transfer.error);
    return details;
  }

  Track replays() const {
    Track track("replays");
    for (const ReplaySpan& replay : record_.replays)
      track.add("replay for " + tensor_name(replay.tensor, replay.id), replay.start_ns,
                replay.end_ns, {{"tensor", replay.id}});
    return track;
  }

  void add_levels() {
    std::optional<int64_t> device_bytes;
    std::optional<int64_t> offloaded_bytes;
    const auto add = [&](const char* name, std::optional<int64_t>& last, int64_t time_ns,
                         int64_t size_bytes) {
      if (last != size_bytes) file_.add_level(name, time_ns, size_bytes);
      last = size_bytes;
    };
    for (const OpSpan& op : record_.ops) {
      add("device memory", device_bytes, op.start_ns, op.device_bytes_at_start);
      add("device memory", device_bytes, op.end_ns, op.device_bytes);
      add("offloaded tensors", offloaded_bytes, op.end_ns, op.offloaded_bytes);
    }
  }

  const TimelineRecord& record_;
  const TimelineProcess& process_;
  ChromeTrace file_;
  int64_t next_row_ = kFirstRow;
};

}  // namespace

std::string timeline_text(const TimelineRecord& record, const TimelineProcess& process) {
  return TimelineWriter(record, process).text();
}

}  // namespace teraio::engine
