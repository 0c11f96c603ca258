#include "simulate/run_file.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "trace/trace_index.h"

namespace teraio::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kComputeRow = 1;
constexpr int kStallRow = 2;
constexpr int kFirstChannelRow = 3;

double microseconds(int64_t time_ns) { return static_cast<double>(time_ns) / 1e3; }

// The rows of one process. Times are shifted so that no transfer starts before 0.
class Timeline {
 public:
  Timeline(const Run& run, const trace::Trace& trace) : run_(run), trace_(trace), index_(trace) {
    for (const TransferRecord& record : run.transfers)
      shift_ns_ = std::max(shift_ns_, -record.start_ns);
  }

  Json events() {
    name_rows();
    add_ops();
    for (const TransferRecord& record : run_.transfers) add_transfer(record);
    add_memory();
    return std::move(events_);
  }

 private:
  void name_rows() {
    const char* rows[] = {"compute",       "stall",          "SSD to device", "host to device",
                          "device to SSD", "device to host", "drops"};
    for (int row = 0; row < std::size(rows); ++row)
      events_.push_back({{"ph", "M"},
                         {"name", "thread_name"},
                         {"pid", 1},
                         {"tid", kComputeRow + row},
                         {"args", {{"name", rows[row]}}}});
  }

  void add_span(int row, const std::string& name, int64_t start_ns, int64_t end_ns, Json details) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"pid", 1},
                       {"tid", row},
                       {"ts", microseconds(start_ns + shift_ns_)},
                       {"dur", microseconds(end_ns - start_ns)},
                       {"args", std::move(details)}});
  }

  void add_ops() {
    int64_t free_ns = 0;
    for (size_t k = 0; k < run_.op_start_ns.size(); ++k) {
      const int64_t start_ns = run_.op_start_ns[k];
      const trace::Op& op = trace_.ops[k];
      if (start_ns > free_ns)
        add_span(kStallRow, "before " + op.name, free_ns, start_ns, {{"op", k}});
      free_ns = start_ns + op.duration_ns;
      add_span(kComputeRow, op.name, start_ns, free_ns, {{"op", k}});
    }
  }

  void add_transfer(const TransferRecord& record) {
    const bool out = record.action != plan::Action::kPrefetch;
    const int channel = record.action == plan::Action::kDrop
                            ? 4
                            : static_cast<int>(record.tier) + 2 * static_cast<int>(out);
    const trace::Tensor& tensor = trace_.tensors[record.tensor];
    const std::string name =
        tensor.name.empty() ? "tensor " + std::to_string(tensor.id) : tensor.name;
    add_span(kFirstChannelRow + channel, name, record.start_ns, record.end_ns,
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
    add_memory_levels(changes);
  }

  // The tensors that were offloaded or dropped and not prefetched again.
  std::vector<uint8_t> tensors_left_offloaded() const {
    std::vector<uint8_t> offloaded(index_.tensor_count());
    for (const TransferRecord& record : run_.transfers)
      offloaded[record.tensor] = record.action != plan::Action::kPrefetch;
    return offloaded;
  }

  // The changes give the level except for a constant, which follows from the peak of the run.
  void add_memory_levels(const std::map<int64_t, int64_t>& changes) {
    int64_t level = 0;
    int64_t highest = 0;
    for (const auto& [time_ns, change] : changes) highest = std::max(highest, level += change);
    level = run_.device_peak_bytes - highest;
    for (const auto& [time_ns, change] : changes) {
      level += change;
      events_.push_back({{"ph", "C"},
                         {"name", "device memory"},
                         {"pid", 1},
                         {"ts", microseconds(time_ns + shift_ns_)},
                         {"args", {{"bytes", level}}}});
    }
  }

  const Run& run_;
  const trace::Trace& trace_;
  const trace::TraceIndex index_;
  int64_t shift_ns_ = 0;
  Json events_ = Json::array();
};

}  // namespace

std::string run_json(const Run& run) {
  const Json json = {{"ideal_ns", run.ideal_ns},
                     {"step_ns", run.step_ns},
                     {"fraction_of_ideal", fraction_of_ideal(run)},
                     {"stall_ns", run.stall_ns},
                     {"stall_by_cause", run.stall_by_cause_ns},
                     {"ssd_bytes_written", run.ssd_bytes_written},
                     {"ssd_bytes_read", run.ssd_bytes_read},
                     {"host_bytes_written", run.host_bytes_written},
                     {"host_bytes_read", run.host_bytes_read},
                     {"device_peak_bytes", run.device_peak_bytes},
                     {"host_peak_bytes", run.host_peak_bytes},
                     {"ssd_peak_bytes", run.ssd_peak_bytes}};
  return json.dump(2) + "\n";
}

Status write_timeline(const Run& run, const trace::Trace& trace,
                      const std::filesystem::path& path) {
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", Timeline(run, trace).events()}};
  return write_text_file(path, to_json_text(document));
}

}  // namespace teraio::simulate
