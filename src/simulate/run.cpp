#include "simulate/run.h"

namespace teraio::simulate {

double fraction_of_ideal(const Run& run) {
  if (run.step_ns == 0) return 1.0;
  return static_cast<double>(run.ideal_ns) / static_cast<double>(run.step_ns);
}

std::vector<int64_t> stall_of_ops(const Run& run, const trace::Trace& trace) {
  std::vector<int64_t> stalls;
  int64_t last_end_ns = 0;
  for (size_t k = 0; k < run.op_start_ns.size(); ++k) {
    stalls.push_back(run.op_start_ns[k] - last_end_ns);
    last_end_ns = run.op_start_ns[k] + trace.ops[k].duration_ns;
  }
  return stalls;
}

}  // namespace teraio::simulate
