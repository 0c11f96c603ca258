#include "simulate/run_file.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/chrome_trace.h"
#include "base/json_file.h"
#include "trace/trace_index.h"

namespace teraio::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kComputeRow = 1;
constexpr int kStallRow = 2;
constexpr int kFirstChannelRow = 3;
constexpr int kReplayRow = 8;  // only in timelines with replays

double microseconds(int64_t time_ns) { return static_cast<double>(time_ns) / 1e3; }

// The file's time begins with the first transfer, which may belong to the step before.
int64_t origin_ns(const Run& run) {
  int64_t origin_ns = 0;
  for (const TransferRecord& record : run.transfers)
    origin_ns = std::min(origin_ns, record.start_ns);
  return origin_ns;
}

class Timeline {
 public:
  Timeline(const Run& run, const trace::Trace& trace)
      : run_(run), trace_(trace), index_(trace), file_(/*process=*/1, origin_ns(run)) {}

  std::string text() {
    file_.name_process("simulated step of " + trace_.name);
    name_rows();
    add_ops();
    for (const TransferRecord& record : run_.transfers) add_transfer(record);
    for (const DiscardRecord& record : run_.discards) add_discard(record);
    add_memory();
    return file_.text();
  }

 private:
  void name_rows() {
    const char* rows[] = {"compute",       "stall",          "SSD to device", "host to device",
                          "device to SSD", "device to host", "drops"};
    for (int row = 0; row < std::size(rows); ++row) file_.name_row(kComputeRow + row, rows[row]);
    if (!run_.replays.empty()) file_.name_row(kReplayRow, "replays");
  }

  void add_ops() {
    int64_t free_ns = 0;
    for (size_t k = 0; k < run_.op_start_ns.size(); ++k) {
      const int64_t start_ns = run_.op_start_ns[k];
      const trace::Op& op = trace_.ops[k];
      free_ns = add_replays(static_cast<trace::OpIndex>(k), free_ns);
      if (start_ns > free_ns)
        add_stall("before " + op.name, start_ns, static_cast<trace::OpIndex>(k));
      free_ns = start_ns + op.duration_ns;
      file_.add_span(kComputeRow, op.name, start_ns, free_ns, {{"op", k}});
    }
  }

  // Adds the stall that ends at `end_ns`, a span per cause.
  void add_stall(const std::string& name, int64_t end_ns, trace::OpIndex op) {
    for (; next_stall_ < run_.stalls.size(); ++next_stall_) {
      const StallRecord& stall = run_.stalls[next_stall_];
      if (stall.start_ns >= end_ns) break;
      file_.add_span(kStallRow, name, stall.start_ns, stall.end_ns,
                     {{"op", op}, {"cause", stall.cause}});
    }
  }

  // Adds the replays before `op`, and returns the end of the last one, or `free_ns` without one.
  int64_t add_replays(trace::OpIndex op, int64_t free_ns) {
    for (; next_replay_ < run_.replays.size(); ++next_replay_) {
      const ReplayRecord& replay = run_.replays[next_replay_];
      if (replay.before_op != op) break;
      const std::string name = "replay of " + trace_.ops[replay.op].name;
      if (replay.start_ns > free_ns) add_stall("before " + name, replay.start_ns, op);
      file_.add_span(kReplayRow, name, replay.start_ns, replay.end_ns,
                     {{"op", replay.op}, {"before_op", op}});
      free_ns = replay.end_ns;
    }
    return free_ns;
  }

  void add_discard(const DiscardRecord& record) {
    const trace::Tensor& tensor = trace_.tensors[record.tensor];
    file_.add_span(kFirstChannelRow + 4, name_of(tensor), record.time_ns, record.time_ns,
                   {{"action", "discard"},
                    {"tensor", tensor.id},
                    {"kind", to_string(tensor.kind)},
                    {"bytes", tensor.size_bytes}});
  }

  static std::string name_of(const trace::Tensor& tensor) {
    return tensor.name.empty() ? "tensor " + std::to_string(tensor.id) : tensor.name;
  }

  void add_transfer(const TransferRecord& record) {
    const bool out = record.action != plan::Action::kPrefetch;
    const int channel = record.action == plan::Action::kDrop
                            ? 4
                            : static_cast<int>(record.tier) + 2 * static_cast<int>(out);
    const trace::Tensor& tensor = trace_.tensors[record.tensor];
    file_.add_span(kFirstChannelRow + channel, name_of(tensor), record.start_ns, record.end_ns,
                   {{"action", to_string(record.action)},
                    {"tensor", tensor.id},
                    {"kind", to_string(tensor.kind)},
                    {"bytes", tensor.size_bytes},
                    {"queued_us", microseconds(record.start_ns - record.issue_ns)}});
  }

  // The changes of device memory in use, by time.
  void add_memory() {
    std::map<int64_t, int64_t> changes;
    const std::vector<uint8_t> die_offloaded = tensors_left_offloaded();
    for (size_t k = 0; k < run_.op_start_ns.size(); ++k) {
      const int64_t start_ns = run_.op_start_ns[k];
      changes[start_ns] += index_.birth_bytes[k] + index_.workspace_bytes[k];
      int64_t& at_end = changes[start_ns + index_.duration_ns[k]];
      at_end -= index_.workspace_bytes[k];
      for (trace::TensorIndex tensor : index_.deaths[k])
        if (!die_offloaded[tensor]) at_end -= index_.size_bytes[tensor];
    }
    for (const TransferRecord& record : run_.transfers) {
      const bool in = record.action == plan::Action::kPrefetch;
      const int64_t size_bytes = index_.size_bytes[record.tensor];
      changes[in ? record.start_ns : record.end_ns] += in ? size_bytes : -size_bytes;
    }
    for (const DiscardRecord& record : run_.discards)
      changes[record.time_ns] -= index_.size_bytes[record.tensor];
    for (const ReplayRecord& replay : run_.replays) add_replay_memory(replay, changes);
    add_memory_levels(changes);
  }

  void add_replay_memory(const ReplayRecord& replay, std::map<int64_t, int64_t>& changes) const {
    changes[replay.start_ns] += replay.workspace_bytes;
    changes[replay.end_ns] -= replay.workspace_bytes;
    changes[replay.start_ns] += replay.temporary_bytes;
    changes[std::max(replay.end_ns, replay.temporary_end_ns)] -= replay.temporary_bytes;
    for (trace::TensorIndex tensor : replay.restores)
      changes[replay.start_ns] += index_.size_bytes[tensor];
  }

  // The tensors that left the device and did not come back.
  std::vector<uint8_t> tensors_left_offloaded() const {
    std::vector<int> times_away(index_.tensor_count());
    for (const TransferRecord& record : run_.transfers)
      times_away[record.tensor] += record.action == plan::Action::kPrefetch ? -1 : 1;
    for (const DiscardRecord& record : run_.discards) ++times_away[record.tensor];
    for (const ReplayRecord& replay : run_.replays)
      for (trace::TensorIndex tensor : replay.restores) --times_away[tensor];
    std::vector<uint8_t> left;
    for (int times : times_away) left.push_back(times > 0);
    return left;
  }

  // The changes give the level except for a constant, which follows from the peak of the run.
  void add_memory_levels(const std::map<int64_t, int64_t>& changes) {
    int64_t level = 0;
    int64_t highest = 0;
    for (const auto& [time_ns, change] : changes) highest = std::max(highest, level += change);
    level = run_.device_peak_bytes - highest;
    for (const auto& [time_ns, change] : changes) {
      level += change;
      file_.add_level("device memory", time_ns, level);
    }
  }

  const Run& run_;
  const trace::Trace& trace_;
  const trace::TraceIndex index_;
  ChromeTrace file_;
  size_t next_replay_ = 0;
  size_t next_stall_ = 0;
};

Json json_of(const Run& run) {
  return {{"ideal_ns", run.ideal_ns},
          {"step_ns", run.step_ns},
          {"fraction_of_ideal", fraction_of_ideal(run)},
          {"replay_ns", run.replay_ns},
          {"stall_ns", run.stall_ns},
          {"stall_by_cause", run.stall_by_cause_ns},
          {"ssd_bytes_written", run.ssd_bytes_written},
          {"ssd_bytes_read", run.ssd_bytes_read},
          {"host_bytes_written", run.host_bytes_written},
          {"host_bytes_read", run.host_bytes_read},
          {"device_peak_bytes", run.device_peak_bytes},
          {"host_peak_bytes", run.host_peak_bytes},
          {"ssd_peak_bytes", run.ssd_peak_bytes}};
}

Json json_of(std::span<const PatternRun> patterns) {
  Json listed = Json::array();
  for (const PatternRun& pattern : patterns) {
    Json json = {{"trace", pattern.name}, {"share", pattern.share}};
    json.update(json_of(pattern.run));
    listed.push_back(std::move(json));
  }
  return listed;
}

Json json_of(std::span<const PatternChange> changes, std::span<const PatternRun> patterns) {
  Json listed = Json::array();
  for (const PatternChange& change : changes) {
    Json json = {
        {"traces", Json::array({patterns[change.first].name, patterns[change.second].name})}};
    if (!change.status.ok()) json["unknown"] = change.status.message();
    const Run& cost = change.cost;
    if (change.status.ok())
      json.update({{"step_ns", cost.step_ns},
                   {"stall_by_cause", cost.stall_by_cause_ns},
                   {"ssd_bytes_written", cost.ssd_bytes_written},
                   {"ssd_bytes_read", cost.ssd_bytes_read},
                   {"host_bytes_written", cost.host_bytes_written},
                   {"host_bytes_read", cost.host_bytes_read}});
    listed.push_back(std::move(json));
  }
  return listed;
}

}  // namespace

std::string run_json(const Run& run) { return json_of(run).dump(2) + "\n"; }

std::string patterns_json(std::span<const PatternRun> patterns,
                          std::span<const PatternChange> changes) {
  const std::optional<Run> random = mean_run_in_random_order(patterns, changes);
  const Json json = {{"patterns", json_of(patterns)},
                     {"mean", json_of(mean_run(patterns))},
                     {"mean_in_random_order", random ? json_of(*random) : Json()},
                     {"changes", json_of(changes, patterns)}};
  return json.dump(2) + "\n";
}

Status write_timeline(const Run& run, const trace::Trace& trace,
                      const std::filesystem::path& path) {
  return write_text_file(path, Timeline(run, trace).text());
}

}  // namespace teraio::simulate
