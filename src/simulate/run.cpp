#include "simulate/run.h"

namespace teraio::simulate {

double fraction_of_ideal(const Run& run) {
  if (run.step_ns == 0) return 1.0;
  return static_cast<double>(run.ideal_ns) / static_cast<double>(run.step_ns);
}

std::vector<Wait> waits_of(const Run& run, const trace::Trace& trace) {
  std::vector<Wait> waits;
  int64_t last_end_ns = 0;
  const auto begin = [&](trace::OpIndex op, int64_t start_ns, int64_t end_ns) {
    if (start_ns > last_end_ns) waits.push_back({op, start_ns, start_ns - last_end_ns});
    last_end_ns = end_ns;
  };
  size_t next = 0;
  for (size_t k = 0; k < run.op_start_ns.size(); ++k) {
    const auto op = static_cast<trace::OpIndex>(k);
    for (; next < run.replays.size() && run.replays[next].before_op == op; ++next)
      begin(op, run.replays[next].start_ns, run.replays[next].end_ns);
    begin(op, run.op_start_ns[k], run.op_start_ns[k] + trace.ops[k].duration_ns);
  }
  return waits;
}

std::vector<int64_t> stall_of_ops(const Run& run, const trace::Trace& trace) {
  std::vector<int64_t> stalls(run.op_start_ns.size());
  for (const Wait& wait : waits_of(run, trace)) stalls[wait.op] += wait.stall_ns;
  return stalls;
}

}  // namespace teraio::simulate
