#include "planner/write_trade_off.h"

#include <algorithm>

#include "base/check.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

class Curve {
 public:
  Curve(const trace::Trace& trace, const hardware::Hardware& hardware, plan::Limits limits,
        const PlannerOptions& options)
      : trace_(trace), hardware_(hardware), limits_(limits), options_(options) {}

  Result<std::vector<WriteTradeOff>> run(int point_count) {
    limits_.write_budget_bytes.reset();
    const Result<int64_t> least = min_write_budget_bytes(trace_, hardware_, limits_);
    if (!least.ok()) return least.status();
    const Result<WriteTradeOff> free = fastest();
    if (!free.ok()) return free.status();
    const int64_t span = free->ssd_bytes_written - *least;
    for (int i = 0; i + 1 < point_count && span > 0; ++i) {
      limits_.write_budget_bytes = *least + span / (point_count - 1) * i;
      const Result<WriteTradeOff> point = fastest();
      if (!point.ok()) return point.status();
      add(*point);
    }
    add(*free);
    return std::move(points_);
  }

 private:
  Result<WriteTradeOff> fastest() const {
    const Result<plan::Plan> planned = plan(trace_, hardware_, limits_, options_);
    if (!planned.ok()) return planned.status();
    const Result<simulate::Run> run = simulate::simulate(trace_, hardware_, limits_, *planned);
    if (!run.ok()) return run.status();
    const int64_t written_bytes = run->ssd_bytes_written;
    return WriteTradeOff{limits_.write_budget_bytes.value_or(written_bytes), written_bytes,
                         run->step_ns};
  }

  // A plan for a smaller budget serves a larger one as well.
  void add(WriteTradeOff point) {
    if (!points_.empty() && points_.back().step_ns <= point.step_ns) {
      point.step_ns = points_.back().step_ns;
      point.ssd_bytes_written = points_.back().ssd_bytes_written;
    }
    points_.push_back(point);
  }

  const trace::Trace& trace_;
  const hardware::Hardware& hardware_;
  plan::Limits limits_;
  const PlannerOptions& options_;
  std::vector<WriteTradeOff> points_;
};

}  // namespace

Result<std::vector<WriteTradeOff>> write_trade_off(const trace::Trace& trace,
                                                   const hardware::Hardware& hardware,
                                                   const plan::Limits& limits,
                                                   const PlannerOptions& options, int point_count) {
  TERAIO_CHECK(point_count >= 2);
  return Curve(trace, hardware, limits, options).run(point_count);
}

}  // namespace teraio::planner
